import { type Duration, toMilliseconds } from "../base/duration.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";

/** How an agent's process is limited. */
export interface IsolateOptions {
  /** Memory that it may have, such as `"512mb"`; a process that takes more is ended. @default "512mb" */
  readonly memory?: string;
  /** How long it may be busy without answering, as in an endless loop, before it is ended. @default "10s" */
  readonly timeout?: Duration;
  /** Variables of the service's environment that it gets beside those of its declared parameters. @default none */
  readonly env?: readonly string[];
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
  readonly module: string | URL | undefined;
}

/** The names of an agent process's limits. */
export const ISOLATE_NAMES: NamesOf<IsolateOptions> = {
  memory: true,
  timeout: true,
  env: true,
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
  const { memory = "512mb", timeout = "10s", env = [], module } = given === true ? {} : given;
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
  return { memory: bytes, timeout: milliseconds, env, module };
}
