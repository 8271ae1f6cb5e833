import type { Job, StoredJob } from "../../core/models/job.ts";
import type { Sent } from "./sent.ts";

/** What a user interface knows of a job: all of it in the first event of a run, then what has changed. */
export class RunState {
  #known: Readonly<Record<string, unknown>> | undefined;

  /** The event that makes it known; none where nothing has changed. */
  *update({ id, agent_name, status, total_cost }: Job | StoredJob): Generator<Sent> {
    const next = { job_id: id, agent: agent_name, status, cost: total_cost };
    const known = this.#known;
    this.#known = next;
    if (!known) {
      yield { type: "STATE_SNAPSHOT", snapshot: next };
      return;
    }
    const delta = Object.entries(next)
      .filter(([name, value]) => known[name] !== value)
      .map(([name, value]) => ({ op: "replace", path: `/${name}`, value }));
    if (delta.length > 0) yield { type: "STATE_DELTA", delta };
  }
}
