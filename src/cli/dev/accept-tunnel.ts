import { existsSync } from "node:fs";
import type { CliContext } from "../context.ts";
import { CliError, UsageError } from "../errors.ts";
import { cloudflaredPath } from "./cloudflared.ts";

const ACCEPTED = "UNTUN_ACCEPT_CLOUDFLARE_NOTICE";
const NOTICE = `--tunnel downloads the program cloudflared from GitHub, once, and lets the internet reach this service through
Cloudflare. Who uses it accepts Cloudflare's terms:
  https://developers.cloudflare.com/cloudflare-one/connections/connect-networks/downloads/license/
  https://www.cloudflare.com/terms/
  https://www.cloudflare.com/privacypolicy/`;

/** Asks, before the first use, whether the terms are accepted; gives the variables that a service behind the tunnel needs. */
export async function acceptTunnel(cacheDir: string, context: CliContext): Promise<Record<string, string>> {
  if (!existsSync(cloudflaredPath(cacheDir, context.env)) && !context.env[ACCEPTED]) {
    context.note(NOTICE);
    if (!context.interactive) {
      throw new UsageError("--tunnel needs your consent", `Set ${ACCEPTED}=1 if there is no terminal.`);
    }
    const { confirm } = await import("@clack/prompts");
    if ((await confirm({ message: "Download and use it?", initialValue: false })) !== true) {
      throw new CliError("There is no tunnel without it");
    }
  }
  // Everything comes through cloudflared, which runs on this machine.
  return { [ACCEPTED]: "1", SERVICE_TRUST_PROXY: "1" };
}
