import { takeJob } from "../../entities/change-job.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import { stopChildren } from "../operate/steer.ts";
import { endOfParent } from "../replay/children.ts";
import type { RequestParts } from "../runner-parts.ts";
import type { Claimant } from "./claim-jobs.ts";
import { readLoss } from "./read-loss.ts";
import type { SharedCluster } from "./shared-cluster.ts";

/** What every request is answered with, where several instances share the store. */
export interface SharedParts extends RequestParts {
  readonly cluster: SharedCluster;
}

/** Claims for this instance; of the owners of jobs, `died` have ended without giving their jobs up. */
export function claimantOf(parts: SharedParts, died: ReadonlySet<string>): Claimant {
  const { agents, cluster, jobs, suspects } = parts;
  return {
    async lossOf(job) {
      const agent = agents.of(job)?.definition;
      // What an isolated agent does cannot end its instance.
      if (!job.owner || !died.has(job.owner) || agent?.isolate) return { isWatched: false };
      return readLoss(job, await entriesOf(jobs, job), { startsOver: agent?.onInterruption === "restart" });
    },
    markOf({ id, run_count }, { isWatched }) {
      const beside = suspects.besides(id);
      return { run: run_count, ...(isWatched && { watched: true }), ...(beside > 0 && { beside }) };
    },
    later: (found) => suspects.later(found),
    async own(unit, { id, status }, isLeft) {
      if (status !== "stopped") await takeJob(unit, id, { owner: isLeft ? null : cluster.owner });
    },
    // Its children may run at other instances.
    beforeRestart: (id) => stopChildren(parts, id, endOfParent(id, "restarted")),
    // The next search finds them.
    again: () => [],
  };
}

async function entriesOf(jobs: Jobs, { id }: StoredJob) {
  return (await jobs.log(id)).map(({ entry }) => entry);
}
