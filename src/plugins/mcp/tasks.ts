import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { type ShownJob, shownNow } from "../../core/http/first-response.ts";
import type { StoredCase } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { Question } from "../../core/models/question.ts";
import { keyOf } from "../../core/models/question-key.ts";
import { type AskingCase, openQuestions, textOf } from "../../core/runs/questions/open-questions.ts";
import type { McpParts } from "./parts.ts";

/** A job as a task of the extension `io.modelcontextprotocol/tasks`. */
export function toTask(parts: McpParts, job: StoredJob): Record<string, unknown> {
  return {
    taskId: job.id,
    status: "working",
    statusMessage: parts.runner.describe(job).message,
    createdAt: job.created_at,
    lastUpdatedAt: job.updated_at,
    ttlMs: timeToLive(parts, job),
    pollIntervalMs: parts.pollInterval,
  };
}

/** The task of a job as it was when the job was stored: what a call that starts it gets, also when it is sent again. */
export function toBegunTask(parts: McpParts, job: StoredJob): Record<string, unknown> {
  const statusMessage = "The job is in progress";
  return { ...toTask(parts, job), statusMessage, lastUpdatedAt: job.created_at, ttlMs: null };
}

/** A task with what its status is about: the open questions, or the result. */
export async function toDetailedTask(
  parts: McpParts,
  job: StoredJob,
  { showsForms }: { readonly showsForms: boolean },
): Promise<Record<string, unknown>> {
  const task = toTask(parts, job);
  if (job.status === "cancelled") return { ...task, status: "cancelled" };
  if (isTerminal(job.status)) {
    return {
      ...task,
      status: "completed",
      result: { resultType: "complete", ...toResult(parts, await shownNow(parts, job)) },
    };
  }
  const asking = await openQuestions(parts.cases, job);
  if (asking.length === 0) return task;
  const statusMessage = asking.map(({ question }) => textOf(question)).join("\n\n");
  // A person answers elsewhere.
  if (!showsForms) return { ...task, statusMessage };
  const inputRequests = Object.fromEntries(asking.map((item) => [keyOf(item), toElicitation(item)]));
  return { ...task, status: "input_required", statusMessage, inputRequests };
}

/** A job as the result of a tool, with its open questions where it has not ended. */
export function toResult(parts: McpParts, { job, asking, cases }: ShownJob): Record<string, unknown> {
  const structuredContent = {
    job_id: job.id,
    agent: job.agent_name,
    status: job.status,
    message: parts.runner.describe(job).message,
    ...(isTerminal(job.status) && { result: job.result, error: job.error }),
    ...(asking.length > 0 && { questions: asking.map(toShownQuestion) }),
    cost: job.total_cost,
    case_count: job.case_count,
    cases: cases.map(toShownCase),
  };
  return {
    content: [{ type: "text", text: textOfJob(job, structuredContent) }],
    structuredContent,
    isError: job.status === "failed" || job.status === "cancelled",
  };
}

/** A turn of a thread as the result of a tool: its answer, or the question that it has come to. */
export function toTurnResult(
  parts: McpParts,
  { job, item }: { readonly job: StoredJob; readonly item: StoredCase },
  { notice, question }: { readonly notice: string; readonly question: Question | undefined },
): Record<string, unknown> {
  const hasEnded = isTerminal(item.status);
  const { answer } = (item.final_delivery ?? {}) as { readonly answer?: string };
  const status = hasEnded ? item.status : job.status;
  const asked = question && toShownQuestion({ ...item, question });
  const text = asked?.text ?? answer ?? item.last_error ?? parts.runner.describe(job).message;
  return {
    content: [{ type: "text", text: `${notice}${text}` }],
    structuredContent: {
      ...{ job_id: job.id, agent: job.agent_name, status: asked ? "awaiting" : status, message: text },
      ...(hasEnded && !asked && { result: answer ?? null, error: item.last_error }),
      ...(asked && { questions: [asked] }),
      ...{ cost: item.total_cost, case_count: 1, cases: [toShownCase(item)] },
    },
    isError: !asked && (status === "failed" || status === "cancelled"),
  };
}

/** A question as a form that a client shows to its user. */
function toElicitation({ question }: AskingCase): Record<string, unknown> {
  return {
    method: "elicitation/create",
    params: {
      mode: "form",
      message: textOf(question),
      requestedSchema: formToJsonSchema(question.fields, { flat: true }),
    },
  };
}

/** A question as `job_answer` takes its answer. */
function toShownQuestion(item: AskingCase) {
  const { requestedSchema } = toElicitation(item).params as { requestedSchema: unknown };
  return {
    question: keyOf(item),
    case: item.name,
    text: textOf(item.question),
    answer_schema: requestedSchema,
    deadline: item.question.deadline,
  };
}

function toShownCase({ id, name, status, final_delivery, total_cost }: StoredCase) {
  return { id, name, status, delivery: final_delivery, cost: total_cost };
}

function textOfJob(job: StoredJob, shown: object): string {
  if (!isTerminal(job.status)) return JSON.stringify(shown);
  if (job.status !== "completed") return job.error ?? `The job is ${job.status}`;
  return typeof job.result === "string" ? job.result : JSON.stringify(job.result);
}

/** Milliseconds from its start until a job that has ended is removed; `null` for one that is not, or that is kept. */
function timeToLive({ retention }: McpParts, job: StoredJob): number | null {
  const { status, finished_at } = job;
  if (finished_at === null) return null;
  const keep = retention.policyOf(job.agent_name, job.job_context.workspace_id)[
    status as "completed" | "failed" | "cancelled"
  ];
  return keep === null ? null : Date.parse(finished_at) - Date.parse(job.created_at) + keep;
}
