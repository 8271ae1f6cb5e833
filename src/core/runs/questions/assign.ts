import { type Actor, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { assignCase } from "../../entities/question-people.ts";
import type { StoredCase } from "../../models/case.ts";
import { asCase, note, type RequestParts } from "../runner-parts.ts";

/** Gives the open question of a case to a person or role, or to nobody. */
export function assignQuestion(
  parts: RequestParts,
  caseId: string,
  to: string | null,
  actor?: Actor,
): Promise<StoredCase> {
  return parts.ledger.write(async (unit) => {
    const item = await unit.tx.get("Case", caseId);
    if (!item) throw new ServiceError("case_not_found", `Case "${caseId}" does not exist`);
    if (item.status !== "awaiting" || !item.question)
      throw new ServiceError("invalid_transition", `Case "${caseId}" asks no question`, {
        detail: `Its status is "${item.status}".`,
      });
    const before = item.question.assigned_to ?? null;
    if (before === to) return item;
    await note(parts, unit, actor, { action: "case.assign", target: asCase(caseId), before, after: to });
    return assignCase(unit, caseId, to, actor && nameOf(actor));
  });
}
