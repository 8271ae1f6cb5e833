import { type CheckedFields, readFields } from "../../../core/agents/fields.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { checkClaimed } from "../../../core/runs/queue/claim-files.ts";
import type { AdminParts } from "../parts.ts";

/** Checks the answer to the question of a case before it is sent; `owner` is whose uploads it may have, if not everybody's. */
export function checkAnswer(
  { files }: Pick<AdminParts, "files">,
  { question, job_id }: StoredCase,
  answer: Readonly<Record<string, unknown>>,
  owner: string | null = null,
): Promise<CheckedFields> {
  return checkClaimed(files, readFields(question?.fields ?? []), answer, { owner, jobs: [job_id] });
}
