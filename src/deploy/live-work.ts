import type { Deployment } from "./deployment.ts";
import { storeOf } from "./job-store.ts";
import type { OpenWork } from "./open-work.ts";
import { askOpenWork } from "./open-work.ts";
import type { Release } from "./platform.ts";
import { detailsOf } from "./state.ts";

/**
 * Asks the running service for its open work, if that could be lost. Undefined if its files survive the
 * deployment, or if it never started.
 */
export async function liveWork(
  deployment: Deployment,
  live: Release | undefined,
  fate: "replaced" | "removed",
): Promise<OpenWork | undefined> {
  const { config, platform, session, state } = deployment;
  if (live === undefined) return undefined;
  // The new release may store its jobs elsewhere than the running one: the running one's jobs could be lost.
  const store = live.env === undefined ? (config.store ?? "file") : storeOf(live);
  if (store !== "file") return undefined;
  const keeps = fate === "replaced" ? !platform.ephemeralDisk : session.keepsFiles;
  if (keeps) return undefined;
  const recorded = await state.read();
  const neverServed =
    recorded?.status === "failed" && detailsOf(recorded).release?.revision === live.revision;
  if (neverServed && detailsOf(recorded).previous?.length === 0) return undefined;
  return askLive(deployment, live);
}

/** Asks a running service for its open work, with the keys that are known here or in the platform's vault. */
export async function askLive({ config, session, tools }: Deployment, live: Release): Promise<OpenWork> {
  const blocked = await session.probeBlocked?.();
  if (blocked !== undefined) return { known: false, reason: blocked };
  const headers = await session.probeHeaders?.();
  return askOpenWork({
    tools,
    url: live.url,
    prefix: live.env?.SERVICE_API_PREFIX,
    headers,
    keys: [
      () => tools.env.SERVICE_API_KEY,
      () => config.secrets.find(({ name }) => name === "SERVICE_API_KEY")?.value,
      async () => session.readSecret?.("SERVICE_API_KEY"),
    ],
  });
}
