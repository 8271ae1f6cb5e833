import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import { RUNNING_JOBS } from "../../models/job-state.ts";
import type { Runner } from "../runner.ts";
import { StepHistory, type Took } from "./step-history.ts";

/** Milliseconds that a step may always take. */
const PATIENCE = 60_000;
/** How many times longer than ever before a step takes that is stuck. */
const TIMES = 10;
/** Jobs that are checked, those that were created first. */
const CHECKED = 500;

/** A job whose step takes far longer than it ever has. */
export interface StuckJob {
  readonly id: string;
  readonly agent: string;
  /** Name of the step; null where another instance runs the job, which alone knows it. */
  readonly step: string | null;
  /** When the step started, milliseconds since the epoch. */
  readonly since: number;
  /** What it took before, half of the times. */
  readonly usual: number;
}

/** Finds the jobs that run, and are stuck. */
export class StuckJobs {
  readonly #runner: Pick<Runner, "runningSteps" | "instance">;
  readonly #history = new StepHistory();

  constructor(runner: Pick<Runner, "runningSteps" | "instance">) {
    this.#runner = runner;
  }

  /** Those that `jobs` shows. */
  async find(jobs: Jobs, now: number): Promise<StuckJob[]> {
    const where = { ...RUNNING_JOBS, created_at: { lt: now - PATIENCE } };
    const ids = await jobs.ids({ where, sort: "created_at", limit: CHECKED });
    const found = await Promise.all(ids.map((id) => this.#check(jobs, id, now)));
    return found.filter((one) => one !== undefined);
  }

  async #check(jobs: Jobs, id: string, now: number): Promise<StuckJob | undefined> {
    const steps = this.#runner.runningSteps(id);
    for (const { name, at } of steps) {
      const since = Date.parse(at);
      if (now - since < PATIENCE) continue;
      const job = await jobs.find(id);
      if (!job) return undefined;
      const took = await this.#history.of(jobs, { jobId: id, agent: job.agent_name, name, now });
      if (isBeyond(now - since, took))
        return { id, agent: job.agent_name, step: name, since, usual: took.median };
    }
    return steps.length > 0 || this.#runner.instance === undefined
      ? undefined
      : this.#checkElsewhere(jobs, id, now);
  }

  /** Of a job that another instance runs, the log only says when its last call ended. */
  async #checkElsewhere(jobs: Jobs, id: string, now: number): Promise<StuckJob | undefined> {
    const job: StoredJob | undefined = await jobs.find(id);
    if (!job?.owner || job.owner === this.#runner.instance) return undefined;
    const last = (await jobs.logEnds(id, { first: 0, last: 1 })).at(-1)?.entry;
    // It waits in the memory of that instance.
    if (!last || (last.type === "begun" && last.call !== "step")) return undefined;
    const since = Date.parse(last.at);
    if (now - since < PATIENCE) return undefined;
    const took = await this.#history.of(jobs, { jobId: id, agent: job.agent_name, now });
    return isBeyond(now - since, took)
      ? { id, agent: job.agent_name, step: null, since, usual: took.median }
      : undefined;
  }
}

function isBeyond(elapsed: number, took: Took | undefined): took is Took {
  return took !== undefined && elapsed > TIMES * took.longest;
}
