import { type Duration, isDuration, toMilliseconds } from "../base/duration.ts";
import type { AgentDefinition } from "./define-agent.ts";

export const SUSPEND_RULE = 'must be a duration such as "10s", or false';

/** How long a job only waits before it leaves memory, or `false` if it stays. */
export type SuspendAfter = Duration | false;

export function isSuspendAfter(value: unknown): value is SuspendAfter {
  return value === false || isDuration(value);
}

/** Milliseconds of what `isSuspendAfter` accepts; nothing where jobs stay in memory. */
export function toSuspendAfter(value: SuspendAfter): number | undefined {
  return value === false ? undefined : toMilliseconds(value);
}

/** The same for an agent. Where its jobs are not resumed after a restart, it may not be able to replay them. */
export function suspendAfterOf(
  { onInterruption = "resume", suspendAfter }: AgentDefinition,
  ofService: number | undefined,
): number | undefined {
  if (onInterruption !== "resume") return undefined;
  return suspendAfter === undefined ? ofService : toSuspendAfter(suspendAfter);
}
