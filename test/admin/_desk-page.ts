import { formatCost, formatCount, formatDuration } from "../../src/plugins/admin/views/format.ts";
import {
  type Case,
  DAY,
  dayOf,
  groupBy,
  type Job,
  limitsOf,
  newestFirst,
  seesWholeAgents,
  sum,
  type Truth,
} from "./_desk-truth.ts";

/**
 * A page, what opens it, and the lines with a number in them that it must have, from the top down; or the first page of a
 * list, and what the pages have that follow it.
 */
export interface DeskPage {
  readonly path: string;
  /** Why its route refuses a reader: 403, or 404 for what does not exist for it. @default it does not */
  readonly refuses?: (truth: Truth) => 403 | 404 | undefined;
  /** `turn` is 0 on the first page of a list. */
  readonly lines: (truth: Truth, turn: number) => readonly string[];
  /** Entries of its list: as long as more follow, it leads to a next page. @default it has no further page */
  readonly entries?: (truth: Truth) => number;
  /** Entries of a page. @default LISTED */
  readonly size?: number;
  /** Pages of the list that are read at most. @default 2 */
  readonly turns?: number;
  /** Lines that say something of this process, and not of what is stored. */
  readonly passing?: RegExp;
  /** What opens the parts of it that the row is about. @default the page without its frame */
  readonly within?: readonly string[];
  /** Parts of the page that another row has. */
  readonly without?: readonly RegExp[];
}

export const cost = (amount: number) => formatCost(amount, "$");
export const where = (path: string, query: Readonly<Record<string, string>>) =>
  Object.keys(query).length === 0 ? path : `${path}?${new URLSearchParams(query)}`;
export const onlyOwner = ({ reader }: Truth) => (reader === "owner" ? undefined : 403);
export const isAsked = ({ reader }: Truth) => limitsOf(reader)?.answers === true;
export const operates = ({ reader }: Truth) => reader === "owner" || reader === "acme";

export const endedIn = ({ jobs, now }: Truth, length: number, status?: string) =>
  jobs.filter(
    (job) =>
      Date.parse(job.finished_at ?? "") >= now - length && (status === undefined || job.status === status),
  );
export const countIn = (jobs: readonly { state?: string; status: string }[], status: string) =>
  jobs.filter((job) => job.status === status).length;
export const inState = (jobs: readonly Job[], state: string) =>
  jobs.filter((job) => job.state === state).length;

/** Rows of a page of a list. */
export const LISTED = 50;
/** What a page of a list has of all. */
export const ofTurn = <T>(items: readonly T[], turn: number, size = LISTED) =>
  items.slice(turn * size, (turn + 1) * size);
export const rangeOf = (total: number, turn: number) =>
  `${formatCount(turn * LISTED + 1)}–${formatCount(Math.min((turn + 1) * LISTED, total))} of ${formatCount(total)}`;
/** The pager below a list that is longer than a page. */
export function pagerLines(total: number, turn: number): string[] {
  if (total <= LISTED) return [];
  const previous = turn > 0 ? " Previous" : "";
  const next = (turn + 1) * LISTED < total ? " Next" : "";
  return [`${rangeOf(total, turn)}${previous}${next}`];
}
/** What is named of each kind on other pages. */
export const SHOWN = 6;

export function durationOf({ created_at, finished_at, status }: Job | Case, now: number): string {
  if (status === "stopped") return "–";
  return formatDuration((finished_at === null ? now : Date.parse(finished_at)) - Date.parse(created_at));
}

export const costOrNone = (amount: number) => (amount === 0 ? "–" : cost(amount));
export const isBetween = (at: string, since: string, until: string) => at >= since && at < until;

/** Failed jobs by reason, the most frequent first. */
export function reasonsOf(failed: readonly Job[]): [string, Job[]][] {
  return [...groupBy(failed, ({ failure }) => failure)].sort(
    ([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1),
  );
}
export const byEnd = (jobs: readonly Job[]) => newestFirst(jobs, ({ finished_at }) => finished_at ?? "");

/** What is spent of a budget, of the agents all of whose jobs a reader sees. */
export function budgetsOf(truth: Truth) {
  if (!seesWholeAgents(truth.reader)) return [];
  const today = dayOf(truth.now);
  return truth.agents.flatMap((agent) => {
    const spent = (since: string) =>
      sum(truth.uses.filter((use) => use.agent === agent && use.day >= since).map((use) => use.cost));
    return [
      { agent, period: "day", budget: 1000, spent: spent(today) },
      { agent, period: "month", budget: 0.7, spent: spent(`${today.slice(0, 7)}-01`) },
    ];
  });
}

/** The questions in the order of the inbox: by deadline, then by when they were asked. */
export function urgentFirst({ questions, cases }: Truth) {
  const created = new Map(cases.map((item) => [item.id, item.created_at]));
  const key = ({ case_id, question: { deadline } }: (typeof questions)[number]) =>
    deadline ? `0${new Date(deadline).toISOString()}` : `1${created.get(case_id)}`;
  return [...questions].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x !== y) return x < y ? -1 : 1;
    return a.case_id < b.case_id ? -1 : 1;
  });
}
export const dueOf = (deadline: string | null | undefined) =>
  deadline ? ` ${new Date(deadline).toISOString()}` : "";

/** Reasons that are new in the last day, or grow. */
export function trendsOf(truth: Truth) {
  const failed = endedIn(truth, DAY, "failed");
  const earlier = endedIn(truth, Number.POSITIVE_INFINITY, "failed").filter((job) => !failed.includes(job));
  return reasonsOf(failed).flatMap(([failure, jobs]) => {
    const before = earlier.filter((job) => job.failure === failure);
    const week = before.filter((job) => Date.parse(job.finished_at!) >= truth.now - 8 * DAY).length;
    const grows = jobs.length >= 5 && jobs.length > (3 * week) / 7;
    const state = before.length === 0 ? "New" : grows ? "Grows" : undefined;
    return state ? [{ failure, state, jobs }] : [];
  });
}
