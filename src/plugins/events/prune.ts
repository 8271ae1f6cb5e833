import type { Logger } from "../../core/base/log.ts";
import type { ResolvedEventsOptions } from "./options.ts";
import type { Outbox } from "./outbox.ts";

/** Keeps the outbox within its limits: on a disk that is nearly full, agents come first. */
export async function pruneOutbox(
  outbox: Outbox,
  options: ResolvedEventsOptions,
  {
    clock,
    log,
    dropped,
  }: { readonly clock: () => Date; readonly log: Logger; readonly dropped: (count: number) => void },
): Promise<void> {
  try {
    const before = new Date(clock().getTime() - options.maxDeadAge).toISOString();
    const dead = await outbox.prune("dead", { most: options.maxDead, before });
    const waiting = await outbox.prune("waiting", { most: options.maxWaiting });
    if (dead > 0) log.warn("dead letters were dropped: too many or too old", { count: dead });
    if (waiting > 0) {
      log.error("waiting messages were dropped: too many (option maxWaiting)", { count: waiting });
    }
    dropped(dead + waiting);
  } catch (error) {
    log.warn("the outbox could not be pruned", { error });
  }
}
