import type { TurnDelivery } from "../../core/agents/define-chat.ts";
import { threadIdOf } from "../../core/conversations/thread-id.ts";
import { caseWhenAsked, caseWhenBegun } from "../../core/conversations/turn-then.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { StoredCase } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { Question } from "../../core/models/question.ts";
import type { AskingCase } from "../../core/runs/questions/open-questions.ts";
import { contextOf } from "./states.ts";
import type { TaskJob } from "./updates.ts";

/** A turn of a thread, which is a task: a message and its answer. */
export interface Turn {
  readonly job: StoredJob;
  readonly item: StoredCase;
}

/** No id of a job or a case has this character. */
const TURN = "turn~";

/** The id of the case of a turn, from the id of its task; `undefined` for the task of a job. */
export function caseOfTask(taskId: string): string | undefined {
  return taskId.startsWith(TURN) ? taskId.slice(TURN.length) : undefined;
}

export function taskOfCase(caseId: string): string {
  return TURN + caseId;
}

/** The turn of a task of this agent, if it exists. */
export async function findTurn(
  { jobs, cases }: { readonly jobs: Jobs; readonly cases: Cases },
  { slug, taskId }: { readonly slug: string; readonly taskId: string },
): Promise<Turn | undefined> {
  const caseId = caseOfTask(taskId);
  const found = caseId === undefined ? undefined : await cases.find(caseId);
  const job = found && (await jobs.find(found.job_id));
  return job?.agent_name === slug ? { job, item: await cases.summary(found!.id) } : undefined;
}

/** The context of a thread: that of the client that has started it, or the thread's id. */
export function contextOfThread(job: StoredJob): string {
  const given = contextOf(job);
  return threadIdOf(job.agent_name, given) === job.id ? given : job.id;
}

/** A turn as a job that does only this: what the task shows. */
export function toTurnJob({ job, item }: Turn): TaskJob {
  const hasEnded = isTerminal(item.status);
  const isEnding = isTerminal(job.status) || job.status === "cancelling";
  const { answer, files = [] } = (item.final_delivery ?? {}) as Partial<TurnDelivery>;
  return {
    ...job,
    turn: { jobId: job.id, files },
    ...{ id: taskOfCase(item.id), case_count: 0, total_cost: item.total_cost, updated_at: item.updated_at },
    job_context: { ...job.job_context, mission_id: contextOfThread(job) },
    status: hasEnded || !isEnding ? item.status : job.status,
    error: hasEnded ? item.last_error : job.error,
    result: answer ?? null,
    open_questions: questionsOf(item).length,
  };
}

/** A turn as it was when its message, or an answer, came: what that gets first, also when it is sent again. */
export async function whenBegun(
  { cases }: { readonly cases: Cases },
  { job, item }: Turn,
  answered?: { readonly question_id: string },
): Promise<Turn> {
  return {
    job: { ...job, status: "in_progress", error: null },
    item: await caseWhenBegun(cases, item, answered),
  };
}

/** A turn as it was when it asked: what its message got then, whatever came of the question since. */
export async function whenAsked(
  { cases }: { readonly cases: Cases },
  { job, item }: Turn,
  question: Question,
): Promise<Turn> {
  const then = await caseWhenAsked(cases, item, question);
  return then === item ? { job, item } : { job: { ...job, status: "awaiting", error: null }, item: then };
}

/** The open question of a turn. */
export function questionsOf(item: StoredCase): AskingCase[] {
  return item.status === "awaiting" && item.question ? [item as AskingCase] : [];
}
