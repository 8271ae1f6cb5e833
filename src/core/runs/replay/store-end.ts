import { endCases } from "../../entities/change-case.ts";
import { endJob } from "../../entities/change-job.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { Spender } from "../../entities/spending.ts";
import type { Limits } from "./limits.ts";
import type { EndingOf, JobEnd } from "./outcome.ts";
import { costOf, type StepUnderWay } from "./step-under-way.ts";
import { countUse, workOf } from "./work.ts";

interface RunToEnd {
  readonly jobId: string;
  /** Whose steps they were. */
  readonly run: { readonly spender: Spender };
  readonly endingOf: EndingOf;
  /** Steps that were under way. */
  readonly cutShort: readonly StepUnderWay[];
  readonly openCases: Iterable<string>;
  readonly limits: Limits;
}

/** Stores the end of a run: the steps that it cut short, its cases, and the job; resolves with how the job has ended. */
export async function storeEnd(unit: Unit, run: RunToEnd): Promise<JobEnd | undefined> {
  const { jobId, endingOf } = run;
  for (const step of run.cutShort) {
    const { call, attempt, startedAt } = step;
    const cost = costOf(step);
    const error = "The run ended before the step";
    await unit.record(jobId, {
      type: "attempt",
      ...call.fields,
      ...(call.kind === "ask" && { call: call.kind }),
      ...{ attempt, error },
      ...(startedAt && { started_at: startedAt }),
      ...(cost > 0 && { cost }),
      ...workOf(step),
    });
    await countUse(unit, step, { run: run.run, isFailed: true });
    // It was spent, whatever the step was about to give.
    run.limits.account(step);
  }
  const openCases = [...run.openCases];
  const stored = openCases.length > 0 ? await unit.tx.get("Job", jobId) : undefined;
  if (stored) await endCases(unit, openCases, endingOf(stored).cases);
  let ending: JobEnd | undefined;
  await endJob(unit, jobId, (job) => {
    ending = endingOf(job);
    return { to: ending.to, patch: { total_cost: run.limits.spent, ...ending.patch(job) } };
  });
  return ending;
}
