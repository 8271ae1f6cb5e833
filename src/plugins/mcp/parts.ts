import type { Caller } from "../../core/audit/caller.ts";
import type { Retention } from "../../core/retention/retention.ts";
import type { ProtocolParts } from "../../core/service/protocol-parts.ts";

/** What requests of clients need. */
export interface McpParts extends ProtocolParts {
  readonly retention: Pick<Retention, "policyOf">;
  /** Milliseconds that clients should wait between two requests about a task. */
  readonly pollInterval: number;
  /** Milliseconds that a call without a task waits for its job. */
  readonly wait: number;
  readonly version: string;
}

/** The same parts as a caller sees them. */
export function partsFor(parts: McpParts, caller: Caller): McpParts {
  return { ...parts, ...parts.seen(caller) };
}
