import { type Actor, nameOf } from "../../audit/caller.ts";
import { removeCaseOfJob } from "../../entities/change-case.ts";
import { eraseCase, putCaseAside, restoreCase } from "../../entities/deleted-cases.ts";
import type { StoredCase } from "../../models/case.ts";
import type { Deletion, DeletionOptions } from "../runner.ts";
import { asCase, note, type RequestParts } from "../runner-parts.ts";
import { restorableUntil } from "./delete-job.ts";
import { withJobOf } from "./steer.ts";

/** Deletes a case, cancelled where it was open, and answers its question for the run; the job continues. */
export async function deleteCase(
  parts: RequestParts,
  caseId: string,
  actor: Actor,
  { permanent = false }: DeletionOptions = {},
): Promise<Pick<Deletion, "restorableUntil">> {
  const keep = permanent ? 0 : parts.deletedKeep;
  const by = nameOf(actor);
  if (permanent && !(await parts.cases.find(caseId))) {
    await parts.ledger.write(async (unit) => {
      const before = toNote(await eraseCase(unit, caseId));
      await note(parts, unit, actor, { action: "case.erase", target: asCase(caseId), before });
    });
    return { restorableUntil: null };
  }
  return withJobOf(parts, caseId, async () => {
    const done = await parts.ledger.write(async (unit) => {
      const item = await unit.tx.get("Case", caseId);
      if (keep === 0) await removeCaseOfJob(unit, caseId, by);
      else await putCaseAside(unit, caseId, by);
      const action = keep === 0 ? "case.erase" : "case.delete";
      await note(parts, unit, actor, { action, target: asCase(caseId), before: item && toNote(item) });
      return { job: item?.job_id, restorableUntil: restorableUntil(unit.now, keep) };
    });
    const run = done.job === undefined ? undefined : parts.runs.find(done.job);
    await run?.questions.withdraw(caseId, `Case "${caseId}" was deleted`);
    return { restorableUntil: done.restorableUntil };
  });
}

/** Restores a case that was deleted alone. */
export function restoreDeletedCase(parts: RequestParts, caseId: string, actor: Actor): Promise<StoredCase> {
  return parts.ledger.write(async (unit) => {
    const item = await restoreCase(unit, caseId, nameOf(actor));
    await note(parts, unit, actor, { action: "case.restore", target: asCase(caseId), after: item.status });
    return item;
  });
}

function toNote({ status, job_id: job, name }: StoredCase) {
  return { status, job, name };
}
