import { endCases } from "../../entities/cases.ts";
import { endJob } from "../../entities/jobs.ts";
import type { Unit } from "../../entities/ledger.ts";
import { costOf, type StepUnderWay } from "./activity.ts";
import type { Limits } from "./limits.ts";
import type { JobEnd } from "./outcome.ts";
import { countUse, workOf } from "./work.ts";

interface RunToEnd {
  readonly jobId: string;
  /** Slug of its agent. */
  readonly agent: string;
  readonly ending: JobEnd;
  /** Steps that were under way. */
  readonly cutShort: readonly StepUnderWay[];
  /** Counts the cost of such a step, once. */
  readonly account: (step: StepUnderWay) => void;
  readonly openCases: Iterable<string>;
  readonly limits: Limits;
}

/** Stores the end of a run: the steps that it cut short, its cases, and the job. */
export async function storeEnd(unit: Unit, run: RunToEnd): Promise<void> {
  const { jobId, ending } = run;
  for (const step of run.cutShort) {
    const { call, attempt } = step;
    const cost = costOf(step);
    const error = "The run ended before the step";
    await unit.record(jobId, {
      type: "attempt",
      ...call.fields,
      ...(call.kind === "ask" && { call: call.kind }),
      ...{ attempt, error },
      ...(cost > 0 && { cost }),
      ...workOf(step),
    });
    await countUse(unit, step, { jobId, agent: run.agent, isFailed: true });
    // It was spent, whatever the step was about to give.
    run.account(step);
  }
  await endCases(unit, run.openCases, ending.cases);
  await endJob(unit, jobId, ending.to, (job) => ({ total_cost: run.limits.spent, ...ending.patch(job) }));
}
