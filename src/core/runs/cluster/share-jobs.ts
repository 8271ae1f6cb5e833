import type { StoredJob } from "../../models/job.ts";
import { endStopped, stopChildren } from "../operate/steer.ts";
import { endOfParent } from "../replay/children.ts";
import type { RequestParts } from "../runner-parts.ts";
import { findClaimable } from "./find-claimable.ts";
import type { Membership } from "./membership.ts";
import { claimJobs } from "./reconcile.ts";
import type { Rounds } from "./rounds.ts";
import { LIMIT } from "./shared-limits.ts";
import { findSuspendedToEnd } from "./suspended-to-end.ts";

/**
 * From now on, instances that share the store inform each other of what they store about jobs, and react to what others store.
 * The result ends that.
 */
export function shareJobs(parts: RequestParts, membership: Membership): () => void {
  const { hooks, runs, store, log } = parts;
  runs.onStopped = (run, job) => endStopped(parts, run, job);
  runs.onSuspectsResumed = () => membership.look();
  const tell = (before: StoredJob): void => {
    if (runs.isElsewhere(before)) runs.tell([before.id]);
  };
  const ends = [
    hooks.on("job:changed", ({ previous }) => tell(previous)),
    hooks.on("job:deleted", ({ job }) => tell(job)),
    store.hints.on((hint) => {
      if (runs.isClosed) return;
      if (hint === "all" || hint.topic === "claim") membership.look();
      else if (hint.topic === LIMIT) void runs.limits?.refresh(hint.ids).catch(() => {});
      else if (hint.topic === "run")
        void runs.look(new Set(hint.ids)).catch((error: unknown) => {
          if (!runs.isClosed) log.warn("what another instance has stored could not be read", { error });
        });
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** Follows what was stored elsewhere, wakes suspended jobs, and claims what nobody owns. */
export async function lookAround(parts: RequestParts, membership: Membership, rounds: Rounds): Promise<void> {
  const { runs } = parts;
  await runs.look();
  await runs.readPausedAgents();
  await runs.limits?.refresh();
  await runs.limits?.sweep();
  if (runs.scheduler.isPaused) return;
  const living = await membership.living();
  runs.hostedElsewhere = new Set(living.flatMap(({ id, agents }) => (id === membership.id ? [] : agents)));
  runs.wakeDue();
  const onRestart = (id: string) => stopChildren(parts, id, endOfParent(id, "restarted"));
  const left = membership.isFirstLook ? await findSuspendedToEnd(parts) : [];
  const { found, ...dead } = await findClaimable(parts, living);
  const died = membership.wasAway ? new Set<string>() : dead.died;
  await claimJobs({ ...parts, claiming: { died, onRestart } }, [...left, ...found]);
  await rounds.make(living);
  membership.isFirstLook = false;
}
