import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { Case } from "../../core/models/case.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { answerPath } from "./answer.ts";
import { ChunkPrinter } from "./chunk-printer.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { describeEntry } from "./describe-entry.ts";
import { followJob, type JobEvent, mayReturn } from "./follow-job.ts";
import { listCases } from "./list-cases.ts";
import { describeQuestion } from "./question.ts";
import type { ServiceClient } from "./service-client.ts";

const flags = v.object({
  verbose: option.flag("show every step"),
  ...CONNECTION_FLAGS,
});

/** `svc job watch`: follows a job to its end. */
export const watch = defineCommand({
  usage: "watch <job>",
  summary: "Follow a job to its end, including its questions",
  flags,
  examples: ["svc job watch job-1f9c2a77", "svc job watch job-1f9c2a77 --json | jq .type"],
  run: async ({ args, flags, context }) => watchJob(await connect(flags, context), args[0]!, flags, context),
});

/** Prints what happens to a job; the exit code is 0 once it is completed, 1 if it ends any other way. */
export async function watchJob(
  client: ServiceClient,
  id: string,
  { verbose, json }: { readonly verbose: boolean; readonly json: boolean },
  context: CliContext,
): Promise<number> {
  const asked = new Set<string>();
  const chunks = new ChunkPrinter(context);
  let mayBeOpen = false;
  let job: Job | undefined;
  for await (const event of followJob(client, id)) {
    if (event.type === "snapshot") job = event.job;
    if (json) context.print(JSON.stringify(toLine(event)));
    else if (event.type === "chunk") chunks.print(event.emitted);
    if (event.type === "reconnecting" && !json) context.note("The service is unreachable; waiting for it …");
    if (event.type === "entry" && !json) {
      const line = describeEntry(event.entry, { job, verbose, client });
      if (line !== undefined) {
        chunks.endLine();
        context.print(line);
      }
      mayBeOpen ||= mayAsk(event.entry);
    }
    if (mayBeOpen) chunks.endLine();
    if (mayBeOpen && !json) mayBeOpen = !(await tellQuestions(client, id, asked, context));
    if (event.type === "end") {
      chunks.endLine();
      if (!json) context.print(describeEnd(await client.get<JobResponse>(`/jobs/${encodeURIComponent(id)}`)));
      return event.status === "completed" ? 0 : 1;
    }
  }
  return 1;
}

function toLine(event: JobEvent): unknown {
  if (event.type === "entry") return event.entry;
  return event.type === "chunk" ? event.emitted : event;
}

/**
 * Whether a question may have been opened: a job that is already awaiting an answer does not change status
 * for the next one.
 */
function mayAsk(entry: RunEntry): boolean {
  if (entry.type === "begun") return entry.call === "ask";
  return entry.type === "status" && entry.to === "awaiting";
}

/**
 * Shows or asks open questions, and returns whether it could: an unreachable service is asked again when it
 * is back.
 */
async function tellQuestions(
  client: ServiceClient,
  id: string,
  asked: Set<string>,
  context: CliContext,
): Promise<boolean> {
  try {
    for (const item of await openQuestions(client, id, asked)) {
      if (context.interactive) await answerHere(client, item, context);
      else context.print(describeQuestion(item, client));
    }
    return true;
  } catch (error) {
    if (mayReturn(error)) return false;
    throw error;
  }
}

/** Questions that have not been shown yet. */
async function openQuestions(client: ServiceClient, id: string, asked: Set<string>): Promise<Case[]> {
  const cases = await listCases(client, id, 0);
  const fresh = cases.filter((item) => item.question && !asked.has(`${item.id} ${item.question.id}`));
  for (const item of fresh) asked.add(`${item.id} ${item.question?.id}`);
  return fresh;
}

/** Asks the person who watches. They can leave a question open, and get the command for later. */
async function answerHere(client: ServiceClient, item: Case, context: CliContext): Promise<void> {
  const { question, fields } = item.question!;
  const { promptFields } = await import("./prompt-fields.ts");
  try {
    const answer = await promptFields(question, fields);
    await client.post(answerPath(item), { answer, message: null });
  } catch (error) {
    // Escape was pressed, or somebody else answered first.
    if (!(error instanceof CliError)) throw error;
    context.print(error.message);
    context.print(describeQuestion(item, client));
  }
}

function describeEnd(job: JobResponse): string {
  const lines = [`${job.status}: ${job.error_message ?? job.message}`];
  const { message: _told, ...rest } = job.payload ?? {};
  if (Object.keys(rest).length > 0) lines.push(JSON.stringify(rest, null, 2));
  return ["", ...lines].join("\n");
}
