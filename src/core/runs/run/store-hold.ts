import { changeJob } from "../../entities/jobs.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { RunEnd } from "./run-errors.ts";

interface RunToHold {
  readonly jobId: string;
  readonly held: NonNullable<RunEnd["held"]>;
  readonly message: string;
  readonly spent: number;
  /** Whether steps were under way. */
  readonly isCutShort: boolean;
}

/** Stores that a job is held: its questions stay open, its cases as they are. */
export async function storeHold(unit: Unit, run: RunToHold): Promise<void> {
  const { jobId, held, message } = run;
  if (run.isCutShort) await unit.record(jobId, { type: "mark", mark: "interrupted", message });
  await unit.record(jobId, { type: "mark", mark: "held", message });
  await changeJob(unit, jobId, (job) => ({
    ...job,
    status: "awaiting",
    stop_reason: "code_changed",
    error: message,
    held: { at: unit.now, message, ...held },
    // It belongs to the version that it fits.
    agent_version: held.recorded.version ?? job.agent_version,
    code_fingerprint: held.recorded.fingerprint ?? job.code_fingerprint,
    total_cost: run.spent,
  }));
}
