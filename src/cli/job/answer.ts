import { randomUUID } from "node:crypto";
import { option } from "../../core/base/option.ts";
import type { Case } from "../../core/models/case.ts";
import type { Question } from "../../core/models/question.ts";
import { CliError, UsageError } from "../errors.ts";
import { listCases } from "./list-cases.ts";
import { readFields } from "./read-fields.ts";
import { requestCommand } from "./request-command.ts";

/** `svc job answer`: answers the open question of a case. */
export const answer = requestCommand({
  usage: "answer <job> [case]",
  summary: "Answer the open question of a job's case",
  flags: {
    field: option.list("a field of the answer, name=value or name:=json; may be repeated", "name=value"),
    message: option.text("a message to the agent"),
  },
  examples: ["svc job answer job-1f9c2a77 sw-77121098 --field approved=no --field comment='ask them first'"],
  async ask(client, { args, flags, context }) {
    const [jobId, caseId] = args as [string, string | undefined];
    const cases = await listCases(client, jobId, 0);
    const { item, question } = findQuestion(cases, jobId, caseId);
    const isOpen = flags.field.length === 0 && question.fields.length > 0;
    if (isOpen && !context.interactive) {
      const names = question.fields.map((field) => field.name).join(", ");
      throw new UsageError(
        `"${question.question}" needs an answer`,
        `Set its fields with --field name=value. Fields: ${names}.`,
      );
    }
    const given = isOpen ? await promptAtTerminal(question) : readFields(flags.field, question.fields);
    const body = { answer: given, message: flags.message ?? null };
    const headers = { "idempotency-key": `answer-${randomUUID()}` };
    return client.post<{ message: string }>(answerPath(item), body, { repeatable: true, headers });
  },
  show: ({ message }) => message,
});

/** URL at which the open question of a case is answered. */
export function answerPath(item: Case): string {
  return `/jobs/${encodeURIComponent(item.job_id)}/cases/${encodeURIComponent(item.id)}/update`;
}

async function promptAtTerminal({ question, fields }: Question): Promise<Record<string, unknown>> {
  const { promptFields } = await import("./prompt-fields.ts");
  return promptFields(question, fields);
}

/** The open question of a case of a job; of its only one where none is named. */
export function findQuestion(
  cases: readonly Case[],
  jobId: string,
  caseId: string | undefined,
): { item: Case; question: Question } {
  const open = cases.filter((item) => item.question);
  const item = caseId === undefined ? open[0] : cases.find((one) => one.id === caseId || one.ref === caseId);
  if (!item && caseId !== undefined) {
    throw new CliError(`Job "${jobId}" has no case "${caseId}"`, {
      detail: `List its cases: svc job show ${jobId}`,
    });
  }
  if (!item?.question) {
    const which = item ? `Case "${item.id}"` : `Job "${jobId}"`;
    throw new CliError(`${which} has no open question`, { detail: `See its status: svc job show ${jobId}` });
  }
  if (caseId === undefined && open.length > 1) {
    throw new UsageError(
      `${open.length} questions are open`,
      `Name the case: ${open.map((one) => one.id).join(", ")}.`,
    );
  }
  return { item, question: item.question };
}
