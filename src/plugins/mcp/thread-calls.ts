import * as v from "valibot";
import { ChatMessageSchema } from "../../core/agents/define-chat.ts";
import type { GivenFile } from "../../core/agents/read-values.ts";
import type { Caller } from "../../core/audit/caller.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { threadIdOf } from "../../core/conversations/thread-id.ts";
import type { SentTurn } from "../../core/conversations/thread-message.ts";
import { caseWhenAsked } from "../../core/conversations/turn-then.ts";
import { check } from "../../core/http/check.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { Question } from "../../core/models/question.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import type { McpParts } from "./parts.ts";
import { toTurnResult } from "./tasks.ts";

const CallSchema = v.strictObject({
  message: v.string(),
  thread: v.pipe(v.string(), v.nonEmpty()),
  files: v.optional(
    v.array(
      v.custom<GivenFile>(
        (file) => v.is(JsonMapSchema, file),
        "must be a file: { name, data }, or { upload }",
      ),
    ),
  ),
  history: v.optional(v.array(v.omit(ChatMessageSchema, ["files"]))),
});

/** What the tool of a chat agent takes besides the fields of its jobs. */
export const THREAD_PROPERTY = {
  type: "string",
  description:
    "Id of a thread, of your choice: the message continues it, or starts it, and answers its open question. Without one, the conversation ends with the answer.",
};

interface Calling {
  readonly by: Caller;
  readonly signal: AbortSignal;
  /** Seconds to wait for the answer. */
  readonly seconds: number;
}

/** Sends a message to a thread; its answer, or what the agent asks. */
export async function callThread(
  parts: McpParts,
  slug: string,
  given: Readonly<Record<string, unknown>>,
  { key, ...calling }: Calling & { readonly key: string | undefined },
): Promise<Record<string, unknown>> {
  const { message: content, files, thread, history } = check(CallSchema, given, "body");
  const turn = await parts.threads.send(slug, threadIdOf(slug, thread), {
    ...{ content, by: calling.by, via: "mcp", context: { started_by: "mcp" } },
    ...(files && { files }),
    ...(history && { history }),
    ...(key !== undefined && { key: `mcp-${key}` }),
  });
  return resultOf(parts, turn, calling);
}

/** Answers a question of a thread; what came of it. */
export async function answerThread(
  parts: McpParts,
  job: StoredJob,
  given: { readonly key: string; readonly values: unknown; readonly message?: string | undefined },
  calling: Calling,
): Promise<Record<string, unknown>> {
  const turn = await parts.threads.answer(job.id, { ...given, by: calling.by, via: "mcp" });
  return resultOf(parts, turn, calling);
}

/** Whether a job is a thread that continues after its answer. */
export function isThread({ agents }: McpParts, job: StoredJob): boolean {
  return agents.of(job)?.definition.chats === true && (job.job_fields as { once?: boolean }).once !== true;
}

async function resultOf(
  parts: McpParts,
  turn: SentTurn,
  { signal, seconds }: Calling,
): Promise<Record<string, unknown>> {
  const over = AbortSignal.any([parts.closing, AbortSignal.timeout(seconds * 1000), signal]);
  let notice = "";
  let caseId: string | undefined;
  let question: Question | undefined;
  let failure: string | undefined;
  for await (const event of parts.threads.follow(turn, over)) {
    if ("caseId" in event) caseId = event.caseId;
    if (event.type === "notice") notice += event.text;
    if (event.type === "question") question = event.question;
    if (event.type === "failed") failure = event.message;
  }
  const job = await parts.jobs.get(turn.jobId);
  if (caseId === undefined) {
    throw new ServiceError("unavailable", failure ?? `Thread "${job.id}" has not taken the message yet`, {
      detail: "Call the tool again, with the same idempotency key.",
    });
  }
  const now = await parts.cases.summary(caseId);
  const item = question ? await caseWhenAsked(parts.cases, now, question) : now;
  return toTurnResult(parts, { job, item }, { notice, question });
}
