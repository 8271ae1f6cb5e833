import type { Caller } from "../audit/caller.ts";
import type { Case } from "../models/case.ts";
import type { EmittedChunks } from "../models/emitted-chunks.ts";
import type { Job } from "../models/job.ts";
import type { JobResponse } from "../models/job-response.ts";
import type { Question } from "../models/question.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { ServerEvent } from "./server-event.ts";

/** What a caller is shown of the record of a job: all of it, all without stack traces, or its state. */
type View = "whole" | "record" | "status";

/** A token shows the state of its job, unless it was made for the record; never a stack trace. */
export function viewOf({ kind, scopes = [] }: Caller): View {
  if (kind !== "token") return "whole";
  return scopes.includes("record") ? "record" : "status";
}

/** Whether a token is for somebody who writes in a thread: what is said in it is no secret to that person. */
function writes({ scopes = [] }: Caller): boolean {
  return scopes.includes("message");
}

/** The job as a caller is shown it: the state has its result and its error, not what it was given. */
export function shownJob(job: Job, caller: Caller): Partial<Job> {
  const view = viewOf(caller);
  if (view === "whole") return job;
  const error = withoutFrames(job.error);
  if (view === "record")
    return { ...job, error, responses: job.responses.map((one) => shownResponse(one, caller)) };
  const { id, name, agent_name, status, result, stop_reason } = job;
  const { created_at, updated_at, finished_at, case_ids, suspended } = job;
  return {
    ...{ id, name, agent_name, status, result, error, stop_reason },
    ...{ created_at, updated_at, finished_at, case_ids, suspended },
    ...(writes(caller) && { job_fields: saidBefore(job.job_fields) }),
  };
}

/** The messages with which a thread was started, without those of its system. */
function saidBefore({ message, history }: Job["job_fields"]): Record<string, unknown> {
  const isSaid = (one: unknown) =>
    ["user", "assistant"].includes((one as { role?: string } | null)?.role ?? "");
  return {
    ...(typeof message === "string" && { message }),
    ...(Array.isArray(history) && { history: history.filter(isSaid) }),
  };
}

/** The newest response of a job. */
export function shownResponse(response: JobResponse, caller: Caller): JobResponse {
  if (viewOf(caller) === "whole") return response;
  return { ...response, error_message: withoutFrames(response.error_message), error_traceback: null };
}

/** The message of an error, where its stack trace was recorded with it. */
function withoutFrames<T extends string | null | undefined>(text: T): T {
  return text?.replace(/^[ \t]*at .+:\d+:\d+\)?$\n?/gm, "").trimEnd() as T;
}

/** A case: its state has its open question, what it delivers, and the names of its updates. */
export function shownCase(item: Case, caller: Caller): Partial<Case> {
  const view = viewOf(caller);
  if (view === "whole") return item;
  const errors = item.updates.map(({ error }) => withoutFrames(error));
  if (view === "record")
    return { ...item, updates: item.updates.map((update, at) => ({ ...update, error: errors[at]! })) };
  const { id, job_id, ref, name, status, update_count, final_delivery, question } = item;
  const { created_at, updated_at, finished_at } = item;
  return {
    ...{ id, job_id, ref, name, status, update_count, final_delivery },
    ...{ created_at, updated_at, finished_at },
    question: question && shownQuestion(question),
    updates: item.updates.map(({ index, name, is_final, created_at }, at) => ({
      ...{ index, name, is_final, created_at },
      ...{ cost: null, payload: null, error: errors[at]! },
    })),
  };
}

/** A question without who has answered it so far, and what. */
function shownQuestion({ approvals, ...question }: Question): Question {
  return { ...question, ...(approvals && { approvals: [] }) };
}

/** An event of the stream of a job. */
export function shownEvent(event: ServerEvent, caller: Caller): ServerEvent {
  const view = viewOf(caller);
  if (view === "whole") return event;
  const { event: name, data } = event;
  if (name === "snapshot") return { ...event, data: shownJob(data as Job, caller) };
  // What steps emit is for who follows the job, except what a model thinks; its number stays.
  if (name === "chunk" && view === "status")
    return { ...event, data: withoutThoughts(data as EmittedChunks) };
  if (name === "chunk" || name === "chunks" || name === "end") return event;
  const entry = data as RunEntry;
  return { ...event, data: view === "record" ? withoutStack(entry) : stateOf(entry, caller) };
}

function withoutThoughts(data: EmittedChunks): EmittedChunks {
  const isThought = (chunk: unknown) => (chunk as { type?: unknown } | null)?.type === "reasoning";
  return { ...data, chunks: data.chunks.map((chunk) => (isThought(chunk) ? "" : chunk)) };
}

function withoutStack(entry: RunEntry): RunEntry {
  if (entry.type !== "call" || entry.error?.stack === undefined) return entry;
  const { stack: _stack, ...error } = entry.error;
  return { ...entry, error };
}

/** What a line of the record says of the state: field by field, so that a new field is not shown by itself. */
function stateOf(entry: RunEntry, caller: Caller): object {
  const { type, at, case_id } = entry;
  const base = { type, at, ...(case_id !== undefined && { case_id }) };
  if (entry.type === "status") return { ...base, from: entry.from, to: entry.to };
  if (entry.type === "mark") return { ...base, mark: entry.mark };
  if (entry.type === "answer") return { ...base, question_id: entry.question_id };
  const { position, name } = entry;
  if (entry.type === "attempt") return { ...base, position, name, attempt: entry.attempt };
  const call = { ...base, position, name, call: entry.call };
  // The id of a case that was opened says which case later lines are about.
  if (entry.type === "call" && entry.call === "open_case") return { ...call, result: entry.result };
  if (entry.type === "call" && entry.call === "event" && name.startsWith("chat.") && writes(caller)) {
    const { id, data } = (entry.result ?? {}) as { id?: unknown; data?: { content?: unknown } };
    return { ...call, result: { id, data: { content: data?.content } } };
  }
  return entry.type === "call" && entry.error ? { ...call, failed: true } : call;
}
