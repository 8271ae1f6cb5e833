import { hash } from "node:crypto";
import * as v from "valibot";
import { readJobFields } from "../../core/agents/read-values.ts";
import type { HostedAgent } from "../../core/agents/registry.ts";
import { toJsonSchema } from "../../core/agents/to-json-schema.ts";
import { type Caller, nameOf } from "../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../core/base/errors.ts";
import { inOrder } from "../../core/base/in-order.ts";
import { requestWithKey } from "../../core/entities/keyed-requests.ts";
import { check } from "../../core/http/check.ts";
import {
  type AskedJob,
  findFirst,
  firstSettled,
  keepFirst,
  type ShownJob,
  shownNow,
} from "../../core/http/first-response.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { EntityIdSchema, JsonMapSchema } from "../../core/models/scalars.ts";
import { answerByKey } from "../../core/runs/questions/open-questions.ts";
import { shownAgents } from "../../core/service/protocol-parts.ts";
import { IDEMPOTENCY_KEY } from "./extension.ts";
import type { McpParts } from "./parts.ts";
import { toResult } from "./tasks.ts";
import { answerThread, isThread, THREAD_PROPERTY } from "./thread-calls.ts";

/** Seconds; proxies abort longer requests. */
const LONGEST_WAIT = 60;

const KeySchema = v.pipe(
  v.string(),
  v.regex(/^[\x21-\x7e]{1,255}$/, "must be 1 to 255 visible ASCII characters"),
);
const WaitSchema = v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(LONGEST_WAIT)));
const StartSchema = v.strictObject({
  agent: v.string(),
  fields: v.optional(JsonMapSchema, {}),
  idempotency_key: v.optional(KeySchema),
  wait: WaitSchema,
});
const StatusSchema = v.strictObject({ job_id: EntityIdSchema, wait: WaitSchema });
const AnswerSchema = v.strictObject({
  job_id: EntityIdSchema,
  question: v.string(),
  answer: JsonMapSchema,
  message: v.optional(v.string()),
});
const CancelSchema = v.strictObject({ job_id: EntityIdSchema });

const jobId = { type: "string", description: "Id of the job" };
const wait = {
  type: "number",
  minimum: 0,
  maximum: LONGEST_WAIT,
  description: "Seconds to wait for the end of the job",
};

/** The tools about jobs, for clients without tasks. */
const JOB_TOOLS = [
  {
    name: "job_start",
    title: "Start a job",
    description:
      "Starts a job of an agent, for work that takes long. Returns the id of the job: ask for its status with job_status.",
    inputSchema: {
      type: "object",
      properties: {
        agent: { type: "string", description: "Name of the agent's tool" },
        fields: { type: "object", description: "What the tool of the agent takes" },
        idempotency_key: {
          type: "string",
          description: "A repeated call with the same key returns the same job and starts nothing",
        },
        wait,
      },
      required: ["agent"],
    },
  },
  {
    name: "job_status",
    title: "Show a job",
    description: "Shows the status of a job, its open questions, its cases and its result.",
    inputSchema: { type: "object", properties: { job_id: jobId, wait }, required: ["job_id"] },
    annotations: { readOnlyHint: true },
  },
  {
    name: "job_answer",
    title: "Answer a question of a job",
    description:
      "Answers an open question of a job, as job_status shows it. A person decides the answer: ask the user first.",
    inputSchema: {
      type: "object",
      properties: {
        job_id: jobId,
        question: { type: "string", description: "The `question` that job_status shows" },
        answer: { type: "object", description: "Values that fit the question's `answer_schema`" },
        message: { type: "string", description: "A remark for the record" },
      },
      required: ["job_id", "question", "answer"],
    },
  },
  {
    name: "job_cancel",
    title: "Cancel a job",
    description: "Asks a job to stop. A job that has ended stays as it is.",
    inputSchema: { type: "object", properties: { job_id: jobId }, required: ["job_id"] },
    annotations: { destructiveHint: true, idempotentHint: true },
  },
] as const;

/** What `toResult` gives as `structuredContent`. */
const OUTPUT_SCHEMA = {
  type: "object",
  properties: {
    job_id: jobId,
    agent: { type: "string" },
    status: {
      type: "string",
      enum: ["stopped", "in_progress", "awaiting", "cancelling", "completed", "failed", "cancelled"],
    },
    message: { type: "string", description: "What the job does, for people" },
    result: { description: "What the job returned, once it has ended" },
    error: { type: ["string", "null"], description: "Why the job failed, once it has ended" },
    questions: {
      type: "array",
      description: "Open questions, for job_answer",
      items: {
        type: "object",
        properties: {
          question: { type: "string" },
          case: { type: "string" },
          text: { type: "string" },
          answer_schema: { type: "object" },
          deadline: { type: ["string", "null"] },
        },
        required: ["question", "text", "answer_schema"],
      },
    },
    cost: { type: "number" },
    case_count: { type: "number" },
    cases: {
      type: "array",
      items: {
        type: "object",
        properties: {
          id: { type: "string" },
          name: { type: "string" },
          status: { type: "string" },
          delivery: { type: ["object", "null"] },
          cost: { type: "number" },
        },
        required: ["id", "name", "status"],
      },
    },
  },
  required: ["job_id", "agent", "status", "message", "cost", "case_count", "cases"],
} as const;

/** Each agent as a tool, and the tools about jobs. */
export function listTools(parts: McpParts): Record<string, unknown>[] {
  return [...shownAgents(parts).map(toTool), ...JOB_TOOLS].map((tool) => ({
    ...tool,
    outputSchema: OUTPUT_SCHEMA,
  }));
}

function toTool({ slug, definition }: HostedAgent): Record<string, unknown> {
  const { job_start } = definition.methods;
  const schema = toJsonSchema(job_start.fields);
  const properties = { ...(schema.properties as object), thread: THREAD_PROPERTY };
  return {
    name: slug,
    title: definition.name,
    description: job_start.description ?? definition.description ?? `Runs the agent ${definition.name}.`,
    inputSchema: definition.chats ? { ...schema, properties } : schema,
  };
}

/** Calls a tool about jobs; `undefined` if there is none of the name. */
export async function callJobTool(
  parts: McpParts,
  name: string,
  given: Readonly<Record<string, unknown>>,
  { by, ...waiting }: Omit<WaitOptions, "seconds"> & { readonly by: Caller },
): Promise<Record<string, unknown> | undefined> {
  switch (name) {
    case "job_start": {
      const { agent, fields, idempotency_key, wait } = check(StartSchema, given, "body");
      const job = await startJob(parts, agent, { fields, key: idempotency_key });
      const key = idempotency_key && `mcp job_start ${idempotency_key}`;
      return toResult(parts, await waitFor(parts, { job, key }, { ...waiting, seconds: wait ?? 0 }));
    }
    case "job_status": {
      const { job_id, wait = 0 } = check(StatusSchema, given, "body");
      const asked = { job: await findJob(parts, job_id), key: undefined };
      return toResult(parts, await waitFor(parts, asked, { ...waiting, seconds: wait }));
    }
    case "job_answer": {
      const { job_id, question, answer, message } = check(AnswerSchema, given, "body");
      const job = await findJob(parts, job_id);
      if (isThread(parts, job)) {
        const { signal = new AbortController().signal } = waiting;
        const calling = { by, signal, seconds: parts.wait / 1000 };
        return answerThread(parts, job, { key: question, values: answer, message }, calling);
      }
      return answerOnce(parts, job, { key: question, values: answer, message }, by);
    }
    case "job_cancel": {
      const { id } = await findJob(parts, check(CancelSchema, given, "body").job_id);
      return toResult(parts, await shownNow(parts, await parts.runner.stop(id, by)));
    }
    default:
      return undefined;
  }
}

/** Answers a question; the same answer of the same caller again gets the first result. */
async function answerOnce(
  parts: McpParts,
  job: StoredJob,
  answer: Parameters<typeof answerByKey>[2],
  by: Caller,
): Promise<Record<string, unknown>> {
  const { key: question, values, message } = answer;
  // Of a question that several must agree to, the same answer of another person is another one.
  const who = [by.kind, by.access, by.session, nameOf(by)];
  const content = hash("sha256", JSON.stringify(inOrder({ values, message, who })), "base64url");
  const key = `mcp job_answer ${question} ${content}`;
  const shown = `${key} shown`;
  const first = await findFirst(parts, { job, key: shown });
  if (first) return toResult(parts, first);
  const once = { key, content: null, after: await parts.feed.last(job.id) };
  const isAnswered =
    (await answerByKey(parts, job, { ...answer, once }, by)) !== undefined ||
    (await requestWithKey(parts.store, job.id, key)) !== undefined;
  const now = await parts.jobs.get(job.id);
  if (isAnswered) return toResult(parts, await keepFirst(parts, { job: now, key: shown }));
  return { ...toResult(parts, await shownNow(parts, now)), ...refused(question) };
}

function refused(question: string) {
  const text = `The question "${question}" is not open: it was answered, or it never was asked`;
  return { content: [{ type: "text", text }], isError: true };
}

/** An agent that clients see; else `agent_not_found`. */
export function agentOf(parts: McpParts, slug: string): HostedAgent {
  const agent = shownAgents(parts).find((one) => one.slug === slug);
  if (agent) return agent;
  throw new ServiceError("agent_not_found", `Unknown agent "${slug}"`);
}

/** Starts a job; it is stored when this resolves. */
export async function startJob(
  parts: McpParts,
  slug: string,
  { fields, key }: { readonly fields: Readonly<Record<string, unknown>>; readonly key?: string | undefined },
): Promise<StoredJob> {
  const { definition } = agentOf(parts, slug);
  const started = parts.runner.start(slug, {
    job_context: { started_by: "mcp" },
    job_fields: readJobFields(definition, [{ data: fields }]),
    ...(key !== undefined && { idempotencyKey: key }),
  });
  return key === undefined || parts.shown === undefined
    ? started
    : started.catch((error: unknown) => hideOther(parts, key, error));
}

/** Throws the error; without the job that has the key, if clients do not see its agent. */
async function hideOther({ jobs, shown }: McpParts, key: string, error: unknown): Promise<never> {
  if (!isServiceError(error) || error.type !== "job_already_exists") throw error;
  const { items } = await jobs.list({ where: { idempotency_key: key }, limit: 1 });
  if (items.every(({ agent_name }) => shown?.has(agent_name))) throw error;
  throw new ServiceError("job_already_exists", "The idempotency key is in use", {
    detail: "Use a new one for this job.",
  });
}

/** Checks the key of a repeated call. */
export function readKey(meta: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const key = meta?.[IDEMPOTENCY_KEY];
  return key === undefined ? undefined : check(KeySchema, key, "body");
}

/** A job of an agent that clients see; else `job_not_found`. */
export async function findJob(parts: McpParts, id: string): Promise<StoredJob> {
  const job = await parts.jobs.get(id);
  if (parts.shown && !parts.shown.has(job.agent_name)) {
    throw new ServiceError("job_not_found", `Job "${id}" does not exist`);
  }
  return job;
}

export interface WaitOptions {
  readonly seconds: number;
  /** Fires when the client no longer waits. */
  readonly signal?: AbortSignal | undefined;
  /** Called when something has happened to the job. */
  readonly seen?: ((job: StoredJob) => void) | undefined;
}

/** What the first response to a call shows: its job once it has ended or asks something, or its state after so many seconds. */
export function waitFor(
  { closing, ...parts }: McpParts,
  asked: AskedJob,
  { seconds, signal, seen }: WaitOptions,
): Promise<ShownJob> {
  const ends = [closing, AbortSignal.timeout(seconds * 1000), signal];
  const over = seconds === 0 ? AbortSignal.abort() : AbortSignal.any(ends.filter((one) => one !== undefined));
  return firstSettled(parts, asked, { signal: over, ...(seen && { seen }) });
}
