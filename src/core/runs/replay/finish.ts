import { LONGEST_MESSAGE, messageOf, shorten } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { holdJob } from "../../entities/change-job.ts";
import { isRefusal } from "../../entities/ledger.ts";
import type { Spender } from "../../entities/spending.ts";
import { may } from "../../models/job-state.ts";
import type { Activity } from "./activity.ts";
import type { Call } from "./call.ts";
import type { Limits } from "./limits.ts";
import { type Found, toMismatch } from "./mismatch.ts";
import { type EndingOf, isOfProcess, type JobEnd, type Outcome, toEnding } from "./outcome.ts";
import type { ReplayGate } from "./replay-gate.ts";
import { HeldError, type RunEnd } from "./run-errors.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { RunLife } from "./run-life.ts";
import type { RunParts } from "./run-parts.ts";
import type { RunRecord } from "./run-record.ts";
import type { StepUnderWay } from "./step-under-way.ts";
import { storeEnd } from "./store-end.ts";

/** A run whose handler has ended, or was left behind. */
interface FinishingRun {
  readonly jobId: string;
  readonly parts: RunParts;
  readonly log: Logger;
  readonly spender: Spender;
  readonly life: RunLife;
  readonly record: RunRecord;
  readonly gate: ReplayGate;
  readonly activity: Activity;
  readonly limits: Limits;
  readonly ledger: RunLedger;
  readonly openCases: ReadonlySet<string>;
  /** Steps that were in progress when the run was asked to end. */
  readonly cutShort: readonly StepUnderWay[];
}

/** Stores what becomes of a job with the outcome of its handler: it ends, or is held. */
export async function finish(run: FinishingRun, outcome: Outcome): Promise<void> {
  const { life, activity, limits } = run;
  const { redact } = run.parts;
  const { skipped, ahead } = run.gate.notIssued();
  if (skipped.length > 0) {
    const calls = skipped.slice(0, 20).map(({ label }) => label);
    run.log.warn("the handler no longer makes calls that are recorded", { calls });
  }
  const judged = endOf(run, outcome, ahead[0]);
  // What was to be stored before the end is stored before it; nothing follows.
  life.move("finish");
  await activity.written();
  const end = judged ?? limits.reached;
  if (end?.held) return hold(run, end, end.held);
  if (!end && outcome.kind === "threw" && outcome.error instanceof HeldError)
    return hold(run, { to: "failed", reason: "unreadable_parameters", message: outcome.error.message });
  const left = end ? [] : activity.steps;
  if (left.length > 0)
    run.log.warn("the handler ended before steps that it had started", {
      steps: left.map(({ name }) => name),
    });
  const cutShort = left.length > 0 ? left : run.cutShort;
  const stored = await endJob(run, toEnding(outcome, end, redact), cutShort);
  if (stored && stored.to !== "completed") {
    run.log.warn(`job ${stored.to}`, { reason: stored.reason, problem: stored.message });
  }
}

/**
 * Why a run ends, other than by its handler's result: it was asked to, or the handler has not made the recorded call that
 * was `expected` next.
 */
export function endOf(run: FinishingRun, outcome: Outcome, expected: Call | undefined): RunEnd | undefined {
  const { end } = run.life;
  if (end || !expected || outcome.kind === "left") return end;
  if (outcome.kind === "returned") return mismatchOf(run, expected, { ended: {} });
  // It may have failed for a reason of its own, where it is the code that made the record.
  const mismatch = mismatchOf(run, expected, { ended: { error: describe(run, outcome.error) } });
  const { held } = mismatch;
  if (held === undefined) return undefined;
  // So it has where it was its process that ended: that says nothing about another input.
  const { fingerprint } = held.recorded;
  const isSameCode = fingerprint !== null && fingerprint === held.present.fingerprint;
  return isSameCode && isOfProcess(outcome.error) ? undefined : mismatch;
}

/** How a run ends whose handler does not make a recorded call. */
export function mismatchOf(
  { record, parts }: Pick<FinishingRun, "record" | "parts">,
  expected: Call,
  found: Found,
): RunEnd {
  return toMismatch(expected, found, { record, code: parts.code });
}

/** The message of an error, as it may be stored. */
export function describe({ parts }: Pick<FinishingRun, "parts">, error: unknown): string {
  return shorten(parts.redact(messageOf(error)), LONGEST_MESSAGE);
}

/** Stores how the job ends; where a plugin refuses that, the job fails for it. Gives back how the job has ended. */
async function endJob(
  run: FinishingRun,
  endingOf: EndingOf,
  cutShort: readonly StepUnderWay[],
): Promise<JobEnd | undefined> {
  const { jobId, openCases, limits, ledger } = run;
  const { redact } = run.parts;
  // Results that were being written when the run was asked to end are recorded by now.
  const unrecorded = cutShort.filter((step) => !step.isRecorded);
  const store = (ending: EndingOf) =>
    ledger.store((unit) =>
      storeEnd(unit, { jobId, run, endingOf: ending, cutShort: unrecorded, openCases, limits }),
    );
  const stored = await store(endingOf).catch((error: unknown) => {
    if (!isRefusal(error)) throw error;
    return store(toEnding({ kind: "threw", error }, undefined, redact));
  });
  run.life.close();
  return stored;
}

/** The job does not end: it waits for code that fits its record, for the key of its parameters, or for a person. */
async function hold(run: FinishingRun, end: RunEnd, held?: NonNullable<RunEnd["held"]>): Promise<void> {
  const { jobId, ledger, limits, cutShort } = run;
  const { redact } = run.parts;
  // Nothing followed from them.
  ledger.forgetChanges();
  const isHeld = await ledger.store(async (unit) => {
    const job = await unit.tx.get("Job", jobId);
    if (!job || !may(job, "hold")) return false;
    const { message: error } = end;
    if (cutShort.length > 0) await unit.record(jobId, { type: "mark", mark: "interrupted", message: error });
    const reason = held ? "code_changed" : "unreadable_parameters";
    await holdJob(unit, jobId, { reason, error, ...(held && { held }), total_cost: limits.spent });
    return true;
  });
  if (!isHeld) await endJob(run, toEnding({ kind: "left" }, undefined, redact), cutShort);
  run.life.close();
  const why = held ? "its record does not fit the code" : "its parameters cannot be read";
  run.log.warn(`the job is held: ${why}`, { problem: end.message });
}
