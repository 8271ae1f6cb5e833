import type { StoredCase } from "../../../core/models/case.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import type { Job } from "../../../core/models/job.ts";
import type { StepKind } from "../../../core/models/model-use.ts";
import type { CallEntry, RunEntry } from "../../../core/models/run-entry.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { TimelineSchema } from "../answers/entities.ts";
import type { LastAttempts } from "./attempts.ts";
import { type Call, collectCalls, isCutShort, spentOn } from "./calls.ts";

type Answer = AnswerOf<typeof TimelineSchema>;
type AnsweredRow = Answer["rows"][number];
type AnsweredSpan = AnsweredRow["spans"][number];

/** What a time span was spent on; only on pages also what a step says that it does, and the time of a case with steps. */
export type SpanKind = AnsweredSpan["kind"] | StepKind | "open";

/** A time span, in milliseconds since the epoch. */
export type Span = Omit<AnsweredSpan, "kind"> & { readonly kind: SpanKind };

/** One line of the waterfall. */
export type TimelineRow = Omit<AnsweredRow, "spans"> & { readonly spans: readonly Span[] };

/** What happened to a job, as rows on one time axis. */
export type Timeline = Omit<Answer, "rows"> & { readonly rows: readonly TimelineRow[] };

/** What a timeline shows of a case. */
export type TimelineCase = Pick<
  StoredCase,
  "id" | "name" | "status" | "created_at" | "finished_at" | "total_cost" | "last_error"
>;

/** Builds a job's timeline from its run log; `before`: the last attempts of the runs before the first entry. */
export function toTimeline(
  job: Omit<Job, "case_ids">,
  stored: readonly TimelineCase[],
  recorded: readonly RunEntry[],
  now: Date,
  before?: LastAttempts,
): Timeline {
  const { entries, cases } = withoutCopied(job, stored, recorded);
  const from = Math.min(time(job.created_at), ...entries.slice(0, 1).map((entry) => time(entry.at)));
  const end = job.finished_at ? time(job.finished_at) : now.getTime();
  // What people do with a job that has ended, such as deleting one of its cases, is noted days later.
  const last = entries.findLast((entry) => entry.type !== "mark" || entry.mark !== "note");
  const to = Math.max(end, from + 1, last ? time(last.at) : 0);
  const gaps = interruptions(entries, to);
  const spans = withGaps(statusSpans(entries, from, job.finished_at ? end : to), gaps);
  const calls = collectCalls(entries, before);
  const jobRow: TimelineRow = {
    kind: "job",
    name: job.name,
    from,
    to,
    spans,
    moments: [],
    running: job.finished_at === null,
    failed: job.status === "failed",
    attempts: 1,
    cost: job.total_cost,
    error: job.error ?? undefined,
  };
  const ofCase = new Map(cases.map(({ id }): [string, Call[]] => [id, []]));
  const own = calls.filter((call) => {
    const some = ofCase.get(call.case_id ?? "");
    some?.push(call);
    return some === undefined;
  });
  const blocks = [
    ...own.map((call) => callRows(call, { to, gaps })),
    ...cases.map((item) => caseRows(item, ofCase.get(item.id)!, { to, gaps })),
  ].filter((rows) => rows.length > 0);
  blocks.sort((a, b) => a[0]!.from - b[0]!.from);
  return {
    from,
    to,
    rows: [jobRow, ...blocks.flat()],
    interruptions: gaps.length,
    downtime: gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0),
    waited: spans.reduce((sum, span) => (span.kind === "waiting" ? sum + span.to - span.from : sum), 0),
  };
}

/** What a fork did itself: what it copied happened before it was created. */
function withoutCopied(
  { created_at, forked_from }: Pick<Job, "created_at" | "forked_from">,
  cases: readonly TimelineCase[],
  entries: readonly RunEntry[],
) {
  if (!forked_from) return { entries, cases };
  return {
    entries: entries.filter(({ at }) => at >= created_at),
    cases: cases
      .filter(({ finished_at }) => finished_at === null || finished_at >= created_at)
      .map((item) => (item.created_at < created_at ? { ...item, created_at } : item)),
  };
}

/** How far lines reach, and when the service was down. */
interface Axis {
  readonly to: number;
  readonly gaps: readonly Span[];
}

/** Calls that take time. */
const ROWS: Partial<
  Record<CallEntry["call"], { readonly kind: TimelineRow["kind"]; readonly base: SpanKind }>
> = {
  step: { kind: "step", base: "work" },
  ask: { kind: "question", base: "waiting" },
  sleep: { kind: "sleep", base: "sleeping" },
  child: { kind: "child", base: "sleeping" },
  event: { kind: "event", base: "sleeping" },
};

function callRows(call: Call, axis: Axis): TimelineRow[] {
  const { kind, base } = ROWS[call.call] ?? {};
  if (!kind || !base) return [];
  const to = call.end ?? (call.entry ? time(call.entry.at) : (call.cut ?? axis.to));
  const isOpen = call.entry === undefined && call.end === undefined;
  const failures: Span[] = [];
  let from = call.begun;
  for (const one of call.tries) {
    const started = Math.max(from, one.started_at ? time(one.started_at) : from);
    failures.push({
      kind: isCutShort(call, one) ? base : "failed",
      from: started,
      to: time(one.at),
      note: `attempt ${one.attempt}: ${one.error}`,
    });
    from = Math.max(from, time(one.at));
  }
  // The wait before an attempt is no part of it.
  if (call.entry?.started_at) from = Math.max(from, time(call.entry.started_at));
  const error = call.entry?.error?.message;
  failures.push({ kind: error === undefined ? base : "failed", from, to, note: error });
  return [
    {
      kind,
      name: call.name,
      case_id: call.case_id,
      step: call.id,
      work: call.entry?.kind ?? call.tries.at(-1)?.kind,
      from: call.begun,
      to,
      spans: withGaps(failures, axis.gaps),
      moments: [],
      running: isOpen && call.cut === undefined,
      ...(isOpen && call.cut !== undefined && { unfinished: true }),
      failed: error !== undefined,
      attempts: Math.max(call.attempts, call.tries.length),
      cost: spentOn(call),
      error,
    },
  ];
}

function caseRows(item: TimelineCase, own: readonly Call[], axis: Axis): TimelineRow[] {
  const from = time(item.created_at);
  const to = item.finished_at ? time(item.finished_at) : axis.to;
  const steps = own.flatMap((call) => callRows(call, { ...axis, to }));
  const waits = steps
    .filter((row) => row.kind === "question")
    .map((row): Span => ({ kind: "waiting", from: row.from, to: row.to }));
  return [
    {
      kind: "case",
      name: item.name,
      case_id: item.id,
      from,
      to,
      spans: withGaps(
        [{ kind: item.status === "failed" ? "failed" : "work", from, to }, ...waits],
        axis.gaps,
      ),
      moments: own.flatMap(momentsOf).sort((a, b) => a.at - b.at),
      running: item.finished_at === null,
      failed: item.status === "failed",
      attempts: 1,
      cost: item.total_cost,
      error: item.last_error ?? undefined,
    },
    ...steps,
  ];
}

/** What a call reported to its case, and when. */
function momentsOf({ call, name, begun, entry, end, tries }: Call): TimelineRow["moments"] {
  const moments = tries.map((one) => ({ at: time(one.at), note: one.error }));
  if (call === "ask") {
    moments.push({ at: begun, note: name });
    if (end !== undefined) moments.push({ at: end, note: "answer" });
    return moments;
  }
  if (!entry || call === "open_case" || ROWS[call]?.base === "sleeping") return moments;
  const note = entry.error?.message ?? (call === "close" ? "close" : name);
  return [...moments, { at: time(entry.at), note }];
}

function statusSpans(entries: readonly RunEntry[], from: number, to: number): Span[] {
  const spans: Span[] = [];
  let kind: SpanKind | undefined = "queued";
  let since = from;
  for (const entry of entries) {
    if (entry.type !== "status") continue;
    const at = time(entry.at);
    if (kind && at > since) spans.push({ kind, from: since, to: at });
    kind = kindOf(entry.to);
    since = at;
  }
  if (kind && to > since) spans.push({ kind, from: since, to });
  return spans;
}

function kindOf(status: string): SpanKind | undefined {
  if (status === "stopped") return "queued";
  if (status === "awaiting") return "waiting";
  return status === "in_progress" || status === "cancelling" ? "work" : undefined;
}

/** The times in which the service was down: from the last sign of life to when the job was resumed. */
function interruptions(entries: readonly RunEntry[], to: number): Span[] {
  const gaps: Span[] = [];
  let since: number | undefined;
  const end = (at: number) => {
    if (since !== undefined && at > since)
      gaps.push({ kind: "interrupted", from: since, to: at, note: "service down" });
    since = undefined;
  };
  for (const [at, entry] of entries.entries()) {
    if (entry.type === "status" && isTerminal(entry.to)) end(time(entry.at));
    if (entry.type !== "mark") continue;
    const isDown =
      entry.mark === "interrupted" || (entry.mark === "waiting_for_agent" && entry.since !== undefined);
    // If an operator ended the run, the service was up.
    if (isDown && entry.by === undefined) since ??= time(entry.since ?? entries[at - 1]?.at ?? entry.at);
    // A job that is held waits, while the service is up.
    if (["resumed", "restarted", "started", "held"].includes(entry.mark)) end(time(entry.at));
  }
  end(to);
  return gaps;
}

/** Removes the gaps from the working time, and shows those that belong to the line. */
function withGaps(spans: readonly Span[], gaps: readonly Span[]): Span[] {
  if (gaps.length === 0 || spans.length === 0) return [...spans];
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(...spans.map((span) => span.to));
  const within = gaps
    .filter((gap) => gap.to > from && gap.from < to)
    .map((gap) => ({ ...gap, from: Math.max(gap.from, from), to: Math.min(gap.to, to) }));
  const worked = spans.flatMap((span) =>
    span.kind === "work" || span.kind === "failed" ? cut(span, within) : span,
  );
  return [...worked, ...within];
}

/** What is left of a span without the gaps, which are in order. */
function cut(span: Span, gaps: readonly Span[]): Span[] {
  const left: Span[] = [];
  let from = span.from;
  for (const gap of gaps) {
    if (gap.to <= from || gap.from >= span.to) continue;
    if (gap.from > from) left.push({ ...span, from, to: gap.from });
    from = gap.to;
  }
  if (from < span.to || left.length === 0) left.push({ ...span, from: Math.min(from, span.to) });
  return left;
}

function time(timestamp: string): number {
  return Date.parse(timestamp);
}
