import { type Duration, toMilliseconds } from "../base/duration.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";

/** How an agent's process is limited. */
export interface IsolateOptions {
  /** Memory that it may have, such as `"512mb"`; a process that takes more is ended. @default "512mb" */
  readonly memory?: string;
  /** How long it may be busy without answering, as in an endless loop, before it is ended. @default "10s" */
  readonly timeout?: Duration;
  /** Variables of the service's environment that it gets beside those of its declared parameters. @default none */
  readonly env?: readonly string[];
  /**
   * What it may do beside reading the project, without the data folder and files such as `.env`, and writing to a temporary
   * folder of its own: paths that it may read or write, relative to the folder of `package.json`, and whether it may run
   * programs, threads and native modules, which nothing holds back. `false` lets it do what the service's user can.
   * @default nothing
   */
  readonly permissions?:
    | { readonly read?: readonly string[]; readonly write?: readonly string[]; readonly run?: boolean }
    | false;
  /**
   * The file that exports the agent, or a service that hosts it: `new URL("./agent.js", import.meta.url)`.
   * @default the controller file that `svc` runs
   */
  readonly module?: string | URL;
}

/** The same with its defaults, in bytes and milliseconds. */
export interface Isolation {
  readonly memory: number;
  readonly timeout: number;
  readonly env: readonly string[];
  readonly permissions:
    | { readonly read: readonly string[]; readonly write: readonly string[]; readonly run: boolean }
    | false;
  readonly module: string | URL | undefined;
}

/** The names of an agent process's limits. */
export const ISOLATE_NAMES: NamesOf<IsolateOptions> = {
  memory: true,
  timeout: true,
  env: true,
  permissions: true,
  module: true,
};

const MEGABYTE = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = { mb: MEGABYTE, gb: 1024 * MEGABYTE };
const LEAST = 64 * MEGABYTE;

/** Reads `isolate`; throws a `TypeError` that says what is wrong with it. */
export function readIsolation(given: boolean | IsolateOptions | undefined): Isolation | undefined {
  if (given === undefined || given === false) return undefined;
  if (given !== true && (typeof given !== "object" || given === null))
    throw new TypeError('isolate must be true, or limits such as { memory: "512mb" }');
  const {
    memory = "512mb",
    timeout = "10s",
    env = [],
    permissions = {},
    module,
  } = given === true ? {} : given;
  const match = typeof memory === "string" ? /^(\d+(?:\.\d+)?)\s*(mb|gb)$/i.exec(memory.trim()) : null;
  const bytes = match ? Number(match[1]) * UNITS[match[2]!.toLowerCase()]! : 0;
  if (bytes < LEAST)
    throw new TypeError('isolate.memory must be text such as "512mb" or "2gb", at least 64mb');
  let milliseconds: number;
  try {
    milliseconds = toMilliseconds(timeout);
  } catch (error) {
    throw new TypeError(`isolate.timeout: ${(error as Error).message}`);
  }
  if (milliseconds < 1000) throw new TypeError("isolate.timeout must be at least 1 s");
  if (!Array.isArray(env) || env.some((name) => typeof name !== "string"))
    throw new TypeError("isolate.env must be a list of names of variables");
  if (module !== undefined && typeof module !== "string" && !(module instanceof URL))
    throw new TypeError("isolate.module must be a path or a file URL");
  return { memory: bytes, timeout: milliseconds, env, permissions: readPermissions(permissions), module };
}

const PERMISSION_NAMES: NamesOf<Exclude<Isolation["permissions"], false>> = {
  read: true,
  write: true,
  run: true,
};

function readPermissions(given: NonNullable<IsolateOptions["permissions"]>): Isolation["permissions"] {
  if (given === false) return false;
  if (typeof given !== "object" || given === null)
    throw new TypeError('isolate.permissions must be false, or permissions such as { write: ["out"] }');
  refuseUnknown(given, PERMISSION_NAMES, "isolate.permissions");
  const { read = [], write = [], run = false } = given;
  for (const [name, paths] of Object.entries({ read, write }))
    if (!Array.isArray(paths) || paths.some((path) => typeof path !== "string" || path === ""))
      throw new TypeError(`isolate.permissions.${name} must be a list of paths`);
  if (typeof run !== "boolean") throw new TypeError("isolate.permissions.run must be true or false");
  return { read, write, run };
}
