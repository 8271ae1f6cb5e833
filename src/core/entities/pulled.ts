import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { PulledFrom } from "../models/lineage.ts";
import { type RunEntry, withIds } from "../models/run-entry.ts";
import type { Unit } from "./ledger.ts";
import { insertCopy } from "./open-case.ts";
import { refuseDeleted } from "./refuse-deleted.ts";
import { removeCasesOf } from "./remove-job.ts";

/** A job with all that is recorded of it. */
export interface WholeJob {
  readonly job: StoredJob;
  readonly log: readonly RunEntry[];
  readonly cases: readonly { readonly item: StoredCase; readonly updates: readonly CaseNodeUpdate[] }[];
}

/**
 * Stores a copy of another service's job inside a unit, in place of an earlier copy of it. One that has not ended is
 * held: it never runs here. Resolves with `undefined`, and stores nothing, if a different job has its id.
 */
export async function storePulled(
  unit: Unit,
  { job, log, cases }: WholeJob,
  from: Pick<PulledFrom, "url">,
): Promise<StoredJob | undefined> {
  const { id } = job;
  const before = await unit.tx.get("Job", id);
  const isSame = before?.created_at === job.created_at && before.agent_name === job.agent_name;
  if (before && !(before.pulled_from && isSame)) return undefined;
  if (!before) await refuseDeleted(unit.tx, id);
  if (before) {
    await removeCasesOf(unit, id);
    await unit.tx.remove("Job", id);
    await unit.tx.clear("Run", id);
  }
  const hold = {
    status: "awaiting",
    stop_reason: "pulled",
    error: `The job was pulled from ${from.url}, where it was ${job.status}: it does not run here. Replay it, or fork it`,
  } as const;
  const stored: StoredJob = {
    ...job,
    ...(!isTerminal(job.status) && hold),
    case_count: cases.length,
    held: null,
    parked: undefined,
    // These are of the other service.
    parent: null,
    schedule: null,
    suspended: null,
    pulled_from: { ...from, at: unit.now, status: job.status },
  };
  await unit.tx.insert("Job", stored);
  const ids = new Map<string, string>();
  for (const one of cases) ids.set(one.item.id, await insertCopy(unit, id, one));
  const idOf = (one: string) => ids.get(one) ?? `${id}-${one}`;
  for (const entry of log) await unit.tx.append("Run", id, withIds(entry, { from: id, jobId: id, idOf }));
  return stored;
}
