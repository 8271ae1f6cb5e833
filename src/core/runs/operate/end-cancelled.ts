import type { HostedAgent } from "../../agents/registry.ts";
import { endCases } from "../../entities/change-case.ts";
import { endJob } from "../../entities/change-job.ts";
import type { Unit } from "../../entities/ledger.ts";
import { caseIdsOf } from "../../entities/remove-job.ts";
import type { StoredJob } from "../../models/job.ts";
import { whenWritable } from "../queue/when-writable.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import { RunRecord } from "../replay/run-record.ts";
import { cancellingEndOf } from "../replay/stopping.ts";
import type { RequestParts } from "../runner-parts.ts";
import { callJobStop } from "./method-calls.ts";

/** A stop was asked for and its end is not stored: the clean-up may not have run, or only in part. */
export function endCancelled(
  parts: RequestParts,
  job: StoredJob,
  agent: HostedAgent | undefined,
): Promise<void> {
  return parts.turns.handling([job.id], storeCancelled(parts, job, agent));
}

async function storeCancelled(
  parts: RequestParts,
  job: StoredJob,
  agent: HostedAgent | undefined,
): Promise<void> {
  const { jobs, ledger, log, scheduler } = parts;
  await scheduler.whenResumed();
  try {
    await callJobStop(parts, job, agent);
    const total_cost = (await RunRecord.of(jobs, job.id)).cost;
    const end = async (unit: Unit): Promise<void> => {
      // An operator may have given it another status meanwhile.
      const current = await unit.tx.get("Job", job.id);
      if (current?.status !== "cancelling") return;
      await cancelWithCases(unit, current, { end: cancellingEndOf(current), total_cost });
    };
    await whenWritable(
      () => ledger.write(end),
      (problem) => {
        if (scheduler.isClosed) throw problem;
      },
    );
  } catch (error) {
    log.error("a job that was being cancelled could not be ended", { job_id: job.id, error });
  }
}

/** Cancels a job with its cases inside a unit. */
export async function cancelWithCases(
  unit: Unit,
  { id }: StoredJob,
  { end, total_cost, by }: { end: RunEnd; total_cost: number; by?: string | undefined },
): Promise<StoredJob> {
  const { reason: stop_reason, message: error } = end;
  await endCases(unit, await caseIdsOf(unit.tx, id), { to: "cancelled", error, name: "cancelled" });
  return endJob(unit, id, () => ({ to: "cancelled", patch: { stop_reason, error, total_cost } }), by);
}
