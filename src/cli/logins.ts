import { hash } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { readIfThere } from "../core/base/read-if-there.ts";
import { writeAtomic } from "../deploy/atomic-file.ts";
import type { CliContext } from "./context.ts";

/** The sign-in of the person at this machine to a service. */
export interface Login {
  /** Scheme, host and port: the sign-in is sent nowhere else. */
  readonly origin: string;
  /** What is sent as a key is. */
  readonly token: string;
  readonly expires_at: string;
}

/** The sign-in to a service, from a file of this user outside of all projects; `undefined` where there is none, or it has ended. */
export async function readLogin(
  origin: string,
  context: Pick<CliContext, "env">,
): Promise<Login | undefined> {
  const text = await readIfThere(fileOf(origin, context));
  if (text === undefined) return undefined;
  const login = parse(text);
  const isOpen = login?.origin === origin && Date.parse(login.expires_at) > Date.now();
  return isOpen ? login : undefined;
}

/** Keeps a sign-in, for this user only. */
export async function writeLogin(login: Login, context: Pick<CliContext, "env">): Promise<void> {
  await mkdir(folderOf(context), { recursive: true, mode: 0o700 });
  await writeAtomic(fileOf(login.origin, context), `${JSON.stringify(login, null, 2)}\n`);
}

export async function removeLogin(origin: string, context: Pick<CliContext, "env">): Promise<void> {
  await rm(fileOf(origin, context), { force: true });
}

/** One file for each service: two commands that sign in elsewhere at the same time do not meet. */
function fileOf(origin: string, context: Pick<CliContext, "env">): string {
  return join(folderOf(context), `${hash("sha256", origin, "hex").slice(0, 32)}.json`);
}

function folderOf({ env }: Pick<CliContext, "env">): string {
  const settings =
    process.platform === "win32"
      ? env.APPDATA || join(homedir(), "AppData", "Roaming")
      : env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config");
  return join(settings, "agent-control-service", "logins");
}

function parse(text: string): Login | undefined {
  try {
    const read = JSON.parse(text) as Partial<Login>;
    const isWhole = [read.origin, read.token, read.expires_at].every((one) => typeof one === "string");
    return isWhole ? (read as Login) : undefined;
  } catch {
    return undefined;
  }
}
