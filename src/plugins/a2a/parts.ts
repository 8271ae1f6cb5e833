import type { Caller } from "../../core/audit/caller.ts";
import type { ProtocolParts } from "../../core/service/protocol-parts.ts";
import type { PushConfigs } from "./push.ts";

/** What requests of clients need. */
export interface A2aParts extends ProtocolParts {
  /** The receivers of tasks. */
  readonly push: PushConfigs;
  /** Milliseconds that a message waits for its job at most; `undefined` for no limit. */
  readonly wait: number | undefined;
  /** The service's URL, as clients reach it: that of the URLs of files. */
  readonly base: string;
}

/** The same parts as a caller sees them, whose request has come to `base`. */
export function partsFor(parts: A2aParts, caller: Caller, base = parts.base): A2aParts {
  return { ...parts, ...parts.seen(caller), base };
}
