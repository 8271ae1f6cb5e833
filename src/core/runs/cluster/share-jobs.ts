import type { StoredJob } from "../../models/job.ts";
import { endStopped } from "../operate/steer.ts";
import { claimJobs } from "./claim-jobs.ts";
import { claimantOf, type SharedParts } from "./claimant.ts";
import { findClaimable, findOwners, type Searched } from "./find-claimable.ts";
import { followOthers } from "./follow-others.ts";
import type { Membership } from "./membership.ts";
import type { Rounds } from "./rounds.ts";
import { LIMIT } from "./shared-limits.ts";
import { findSuspendedToEnd } from "./suspended-to-end.ts";

/**
 * From now on, instances that share the store inform each other of what they store about jobs, and react to what others store.
 * The result ends that.
 */
export function shareJobs(parts: SharedParts, membership: Membership): () => void {
  const { cluster, hooks, scheduler, store, suspects, log } = parts;
  suspects.onIdle = () => membership.look();
  const hint = (before: StoredJob): void => {
    if (cluster.isElsewhere(before)) cluster.hint([before.id]);
  };
  const ends = [
    hooks.on("job:changed", ({ previous }) => hint(previous)),
    hooks.on("job:deleted", ({ job }) => hint(job)),
    store.hints.on((hint) => {
      if (scheduler.isClosed) return;
      if (hint === "all" || hint.topic === "claim") membership.look();
      else if (hint.topic === LIMIT) void cluster.limits.refresh(hint.ids).catch(() => {});
      else if (hint.topic === "run")
        void follow(parts, new Set(hint.ids)).catch((error: unknown) => {
          if (!scheduler.isClosed) log.warn("what another instance has stored could not be read", { error });
        });
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}

/** Follows what was stored elsewhere, wakes suspended jobs, and claims what nobody owns. */
export async function lookAround(
  parts: SharedParts,
  membership: Membership,
  { rounds, searched }: { readonly rounds: Rounds; readonly searched: Searched },
): Promise<void> {
  const { cluster, pauses, scheduler, waker } = parts;
  // Together, as a store may read all of it in one statement.
  const [owners, living] = await Promise.all([
    findOwners(parts),
    membership.living(),
    pauses.read("now"),
    follow(parts),
    cluster.limits.refresh(),
    // At first it is not known which jobs others host.
    scheduler.isPaused || membership.isFirstLook || waker.look(),
  ]);
  await cluster.limits.sweep();
  if (scheduler.isPaused) return;
  const others = living.filter(({ id }) => id !== membership.id);
  cluster.hostedElsewhere = new Set(others.flatMap(({ agents }) => agents));
  cluster.livingElsewhere = new Set(others.map(({ id }) => id));
  if (membership.isFirstLook) waker.look();
  const left = membership.isFirstLook ? await findSuspendedToEnd(parts) : [];
  const { found, ...dead } = await findClaimable(parts, { living, owners, searched });
  // While the store was away, the others could not renew their signs of life either.
  const died = membership.wasAway ? new Set<string>() : dead.died;
  await claimJobs({ ...parts, claimant: claimantOf(parts, died) }, [...left, ...found]);
  await rounds.make(living);
  membership.isFirstLook = false;
}

function follow(parts: SharedParts, among?: ReadonlySet<string>): Promise<void> {
  return followOthers({ ...parts, stopped: (run, job) => endStopped(parts, run, job) }, among);
}
