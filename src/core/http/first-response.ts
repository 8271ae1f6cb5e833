import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import { keepShown, requestWithKey } from "../entities/keyed-requests.ts";
import type { StoredCase } from "../models/case.ts";
import type { EmittedChunks } from "../models/emitted-chunks.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { ShownState } from "../models/keyed-request.ts";
import type { Question } from "../models/question.ts";
import { keyOf, partsOfKey } from "../models/question-key.ts";
import { type AskingCase, openQuestions } from "../runs/questions/open-questions.ts";
import type { Store } from "../store/store.ts";
import type { JobFeed } from "./job-feed.ts";
import { isAsking, isBusy, type SettleOptions, settled } from "./settled.ts";

/*
 * What the first response to a request has shown of a job is stored before that is sent: the request gets the same when it is
 * sent again, whatever has happened since. Of the job, only what may change later is stored.
 */

/** Cases of a job that a response lists, oldest first. */
const MOST_CASES = 100;

interface Parts {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly feed: JobFeed;
  readonly clock: () => Date;
}

/** A job as a response shows it. */
export interface ShownJob {
  readonly job: StoredJob;
  /** Its questions that are open. */
  readonly asking: readonly AskingCase[];
  /** Its cases, the first hundred. */
  readonly cases: readonly StoredCase[];
  /** Numbers of the last entries of its log before the request came, and before its response was sent. */
  readonly after: number;
  readonly until: number;
  /** Of steps that were under way: what a stream has shown of what they emit. */
  readonly emitted?: readonly EmittedChunks[];
}

/** Where a response is in the log of its job, and what it has shown that is not there. */
type Places = Partial<Pick<ShownJob, "after" | "until" | "emitted">>;

/** A request to a job: `key` names it among them, with its protocol; without one, each request is another one. */
export interface AskedJob {
  readonly job: StoredJob;
  readonly key: string | undefined;
}

/** A job as it is now. */
export async function shownNow(
  { cases }: Pick<Parts, "cases">,
  job: StoredJob,
  { after = 0, until = after, emitted = [] }: Places = {},
): Promise<ShownJob> {
  const asking = isTerminal(job.status) ? [] : await openQuestions(cases, job);
  return { job, asking, cases: await listCases(cases, job), after, until, emitted };
}

/** The job as the first response to a request has shown it; `undefined` before there is one. */
export async function findFirst(parts: Parts, { job, key }: AskedJob): Promise<ShownJob | undefined> {
  const kept = key === undefined ? undefined : await requestWithKey(parts.store, job.id, key);
  return kept?.shown && restoreAsked(parts, job, kept.after, kept.shown);
}

/** A new job as the stream of the request that has started it shows it first. */
export function startOfNew(job: StoredJob): ShownJob {
  const nothing = { total_cost: 0, case_count: 0, open_questions: 0, error: null, result: null } as const;
  const asNew: StoredJob = { ...job, status: "stopped", updated_at: job.created_at, ...nothing };
  return { job: asNew, asking: [], cases: [], after: 0, until: 0 };
}

/**
 * A job that exists as the stream of a request to it shows it first, which is stored before the request does anything: it
 * works, as the request answers what it asks.
 */
export async function startOf(parts: Parts, { job, key }: AskedJob): Promise<ShownJob> {
  const before = key === undefined ? undefined : await requestWithKey(parts.store, job.id, key);
  if (before?.began) return restore(parts, job, before.after, before.began);
  // Its first response was no stream: there is nothing between its start and its end.
  if (before?.shown) {
    const { until = before.after } = before.shown;
    return restore(parts, job, until, { ...before.shown, status: "in_progress", asked: [] });
  }
  const after = await parts.feed.last(job.id);
  if (isTerminal(job.status)) return shownNow(parts, job, { after });
  const status = job.status === "cancelling" ? job.status : "in_progress";
  const now = await shownNow(parts, { ...job, status, open_questions: 0 }, { after });
  if (key === undefined) return now;
  const row = await parts.store.transaction((tx) => {
    const unit = { tx, now: parts.clock().toISOString() };
    return keepShown(unit, job.id, { key, after, as: "began", state: toState(now) });
  });
  return restore(parts, job, row.after, row.began);
}

/**
 * Stores how a response shows a job, unless another one to the same request was first; gives the first. Where its questions
 * were answered meanwhile, nothing is stored, and the job asks nothing.
 */
export async function keepFirst(parts: Parts, { job, key }: AskedJob, places?: Places): Promise<ShownJob> {
  const now = await shownNow(parts, job, places);
  if (key === undefined) return now;
  const isAnswered = !isTerminal(job.status) && isAsking(job) && now.asking.length === 0;
  if (isAnswered) return { ...now, job: { ...job, open_questions: 0 } };
  const kept = await parts.store.transaction((tx) => {
    const unit = { tx, now: parts.clock().toISOString() };
    return keepShown(unit, job.id, { key, after: now.after, as: "shown", state: toState(now) });
  });
  return (await restoreAsked(parts, job, kept.after, kept.shown)) ?? now;
}

/**
 * The job as the first response to a request shows it: once it has ended or asks something. A response that shows it as it
 * is when the signal fires is not stored: the same request waits again.
 */
export async function firstSettled(parts: Parts, asked: AskedJob, options: SettleOptions): Promise<ShownJob> {
  const first = await findFirst(parts, asked);
  if (first) return first;
  for (let job = asked.job; ; job = await parts.jobs.get(job.id)) {
    job = await settled(parts, job, options);
    if (isBusy(job)) return shownNow(parts, job);
    const shown = await keepFirst(parts, { ...asked, job });
    if (!isBusy(shown.job)) return shown;
  }
}

function toState({ job, asking, cases, until, emitted = [] }: ShownJob): ShownState {
  const open = cases.filter(({ status }) => !isTerminal(status));
  const costs = open.flatMap(({ id, total_cost }) => (total_cost === 0 ? [] : [[id, total_cost] as const]));
  return {
    ...{ status: job.status, at: job.updated_at, cost: job.total_cost },
    ...(job.error !== null && { error: job.error }),
    ...(asking.length > 0 && { asked: asking.map(keyOf) }),
    ...{ case_count: job.case_count, ended: cases.length - open.length },
    ...(costs.length > 0 && { costs: Object.fromEntries(costs) }),
    ...(until > 0 && { until }),
    ...(emitted.length > 0 && { emitted }),
  };
}

/** The same where it asks something; `undefined` where the job was started over and has lost the case of a question. */
async function restoreAsked(
  parts: Parts,
  now: StoredJob,
  after: number,
  shown: ShownState,
): Promise<ShownJob | undefined> {
  const asking = await Promise.all((shown.asked ?? []).map((key) => findAsked(parts.cases, key)));
  if (!asking.every((item) => item !== undefined)) return undefined;
  return restore(parts, now, after, shown, asking);
}

async function restore(
  { cases }: Parts,
  now: StoredJob,
  after: number,
  shown: ShownState,
  asking: readonly AskingCase[] = [],
): Promise<ShownJob> {
  const { status, at, cost, error = null, case_count, until = after, emitted = [] } = shown;
  // Since a retry, what it has is of a later run.
  const result = isTerminal(status) && now.status === status ? now.result : null;
  const job: StoredJob = {
    ...now,
    ...{ status, updated_at: at, total_cost: cost, error, result },
    ...{ case_count, open_questions: asking.length },
  };
  return { job, asking, cases: casesThen(await listCases(cases, job), shown, asking), after, until, emitted };
}

/** Cases as they were: those that have ended since were open, or had ended with their job and were opened again by a retry. */
function casesThen(
  now: readonly StoredCase[],
  { status, at, ended, costs = {} }: ShownState,
  asking: readonly AskingCase[],
): StoredCase[] {
  const byEnd = now
    .filter(({ status, finished_at }) => isTerminal(status) && !isAfter(finished_at, at))
    .toSorted((a, b) => Date.parse(a.finished_at ?? "") - Date.parse(b.finished_at ?? ""));
  const over = new Set(byEnd.slice(0, ended));
  const hasEnded = isTerminal(status);
  return now.map((item) => {
    if (over.has(item)) return item;
    const asked = asking.find(({ id }) => id === item.id);
    const then = {
      status: hasEnded ? status : "in_progress",
      final_delivery: null,
      last_error: null,
      finished_at: hasEnded ? at : null,
    } as const;
    return {
      ...(asked ?? item),
      ...then,
      ...(asked && { status: asked.status }),
      total_cost: costs[item.id] ?? (hasEnded ? item.total_cost : 0),
    };
  });
}

function isAfter(time: string | null, other: string): boolean {
  return time !== null && Date.parse(time) > Date.parse(other);
}

async function listCases(cases: Cases, { id, case_count }: StoredJob): Promise<StoredCase[]> {
  if (case_count === 0) return [];
  const limit = Math.min(case_count, MOST_CASES);
  return (await cases.list({ where: { job_id: id }, sort: "created_at", limit })).items;
}

/** A question with the case that has asked it, also once it was answered: the history of the case has it. */
async function findAsked(cases: Cases, key: string): Promise<AskingCase | undefined> {
  const found = await cases.find(partsOfKey(key).caseId);
  if (!found) return undefined;
  const item = await cases.summary(found.id);
  const history = found.updates.map(({ payload }) => payload?.question as Question | undefined);
  const question = [item.question, ...history.toReversed()].find(
    (one) => one && keyOf({ id: item.id, question: one }) === key,
  );
  return question ? { ...item, status: "awaiting", question } : undefined;
}
