import type { StoredCase } from "../../../core/models/case.ts";
import type { Job } from "../../../core/models/job.ts";
import type { AnswerEntry, AttemptEntry, CallEntry, RunEntry } from "../../../core/models/run-entry.ts";

/** What a stretch of time was spent on. */
export type SpanKind = "work" | "queued" | "waiting" | "sleeping" | "failed" | "interrupted";

/** A stretch of time, in milliseconds since the epoch. */
export interface Span {
  readonly kind: SpanKind;
  readonly from: number;
  readonly to: number;
  readonly note?: string;
}

/** One line of the waterfall. */
export interface TimelineRow {
  readonly kind: "job" | "case" | "step" | "question" | "sleep";
  readonly name: string;
  readonly case_id?: string;
  readonly from: number;
  readonly to: number;
  readonly spans: readonly Span[];
  /** Moments on the line, such as updates. */
  readonly moments: readonly { readonly at: number; readonly note: string }[];
  readonly running: boolean;
  readonly failed: boolean;
  readonly attempts: number;
  readonly cost: number;
  readonly error?: string;
}

/** What happened to a job, as rows on one axis of time. */
export interface Timeline {
  readonly from: number;
  readonly to: number;
  readonly rows: readonly TimelineRow[];
  readonly interruptions: number;
  /** Milliseconds that the job waited for people. */
  readonly waited: number;
}

/** Reads a job's timeline out of its run log. */
export function toTimeline(
  job: Omit<Job, "case_ids">,
  cases: readonly StoredCase[],
  entries: readonly RunEntry[],
  now: Date,
): Timeline {
  const from = Math.min(time(job.created_at), ...entries.slice(0, 1).map((entry) => time(entry.at)));
  const end = job.finished_at ? time(job.finished_at) : now.getTime();
  const to = Math.max(end, from + 1, ...entries.slice(-1).map((entry) => time(entry.at)));
  const gaps = interruptions(entries, to);
  const spans = [...statusSpans(entries, from, job.finished_at ? end : to), ...gaps];
  const calls = collectCalls(entries);
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
  const known = new Set(cases.map((item) => item.id));
  const own = calls.filter((call) => call.case_id === undefined || !known.has(call.case_id));
  const blocks = [
    ...own.map((call) => callRows(call, to)),
    ...cases.map((item) => caseRows(item, calls, { to, gaps })),
  ].filter((rows) => rows.length > 0);
  blocks.sort((a, b) => a[0]!.from - b[0]!.from);
  return {
    from,
    to,
    rows: [jobRow, ...blocks.flat()],
    interruptions: gaps.length,
    waited: spans.reduce((sum, span) => (span.kind === "waiting" ? sum + span.to - span.from : sum), 0),
  };
}

/** A call with its tries, finished or not. */
interface Call {
  readonly case_id?: string;
  readonly call: CallEntry["call"];
  readonly name: string;
  readonly begun: number;
  readonly entry?: CallEntry;
  /** When it ended, where no entry says so. */
  readonly end?: number;
  readonly tries: readonly AttemptEntry[];
  readonly attempt: number;
}

function collectCalls(entries: readonly RunEntry[]): Call[] {
  const open = new Map<string, Call>();
  const done: Call[] = [];
  const settled = new Set<string>();
  for (const entry of entries) {
    if (entry.type === "answer") {
      settle(open, { done, settled }, entry);
      continue;
    }
    if (entry.type !== "begun" && entry.type !== "attempt" && entry.type !== "call") continue;
    const key = `${entry.case_id ?? ""}\n${entry.position}`;
    if (settled.has(key)) continue;
    const known = open.get(key);
    const begun = known?.begun ?? time((entry.type === "begun" ? undefined : entry.started_at) ?? entry.at);
    if (entry.type === "begun") {
      open.set(key, {
        tries: [],
        ...known,
        case_id: entry.case_id,
        call: entry.call,
        name: entry.name,
        begun,
        attempt: entry.attempt,
      });
      continue;
    }
    if (entry.type === "attempt") {
      open.set(key, {
        call: "step",
        ...known,
        case_id: entry.case_id,
        name: entry.name,
        begun,
        attempt: entry.attempt,
        tries: [...(known?.tries ?? []), entry],
      });
      continue;
    }
    open.delete(key);
    done.push({
      case_id: entry.case_id,
      call: entry.call,
      name: entry.name,
      begun: Math.min(begun, entry.started_at ? time(entry.started_at) : begun),
      entry,
      tries: known?.tries ?? [],
      attempt: entry.attempts ?? known?.attempt ?? 1,
    });
  }
  return [...done, ...open.values()].sort((a, b) => a.begun - b.begun);
}

/** An answer ends the question that its case has open, whether or not the run has taken it up yet. */
function settle(
  open: Map<string, Call>,
  { done, settled }: { done: Call[]; settled: Set<string> },
  answer: AnswerEntry,
): void {
  for (const [key, call] of open) {
    if (call.call !== "ask" || call.case_id !== answer.case_id) continue;
    open.delete(key);
    // What the run notes of it later is known.
    settled.add(key);
    done.push({ ...call, end: time(answer.at) });
  }
}

function callRows(call: Call, now: number): TimelineRow[] {
  if (call.call === "open_case" || call.call === "update" || call.call === "close") return [];
  const to = call.entry ? time(call.entry.at) : (call.end ?? now);
  const kind = call.call === "ask" ? "question" : call.call === "sleep" ? "sleep" : "step";
  const base: SpanKind = kind === "question" ? "waiting" : kind === "sleep" ? "sleeping" : "work";
  const failures: Span[] = [];
  let from = call.begun;
  for (const one of call.tries) {
    const started = Math.max(from, one.started_at ? time(one.started_at) : from);
    failures.push({
      kind: "failed",
      from: started,
      to: time(one.at),
      note: `try ${one.attempt}: ${one.error}`,
    });
    from = Math.max(from, time(one.at));
  }
  const error = call.entry?.error?.message;
  failures.push({ kind: error === undefined ? base : "failed", from, to, note: error });
  return [
    {
      kind,
      name: call.name,
      case_id: call.case_id,
      from: call.begun,
      to,
      spans: failures,
      moments: [],
      running: call.entry === undefined && call.end === undefined,
      failed: error !== undefined,
      attempts: Math.max(call.attempt, call.tries.length),
      cost: call.entry?.cost ?? 0,
      error,
    },
  ];
}

function caseRows(
  item: StoredCase,
  calls: readonly Call[],
  axis: { to: number; gaps: readonly Span[] },
): TimelineRow[] {
  const own = calls.filter((call) => call.case_id === item.id);
  const from = time(item.created_at);
  const to = item.finished_at ? time(item.finished_at) : axis.to;
  const steps = own.flatMap((call) => callRows(call, item.finished_at ? to : axis.to));
  const waits = steps
    .filter((row) => row.kind === "question")
    .map((row): Span => ({ kind: "waiting", from: row.from, to: row.to }));
  const gaps = axis.gaps.filter((gap) => gap.to > from && gap.from < to);
  return [
    {
      kind: "case",
      name: item.name,
      case_id: item.id,
      from,
      to,
      spans: [
        { kind: item.status === "failed" ? "failed" : "work", from, to },
        ...waits,
        ...gaps.map((gap) => ({ ...gap, from: Math.max(gap.from, from), to: Math.min(gap.to, to) })),
      ],
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

/** What a call told its case, and when. */
function momentsOf({ call, name, begun, entry, end, tries }: Call): TimelineRow["moments"] {
  const moments = tries.map((one) => ({ at: time(one.at), note: one.error }));
  if (call === "ask") {
    moments.push({ at: begun, note: name });
    if (end !== undefined) moments.push({ at: end, note: "answer" });
    return moments;
  }
  if (!entry || call === "open_case" || call === "sleep") return moments;
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

function interruptions(entries: readonly RunEntry[], to: number): Span[] {
  const gaps: Span[] = [];
  let since: number | undefined;
  for (const entry of entries) {
    if (entry.type !== "mark") continue;
    if (entry.mark === "interrupted") {
      since ??= time(entry.at);
      continue;
    }
    const again = entry.mark === "resumed" || entry.mark === "restarted" || entry.mark === "started";
    if (since === undefined || !again) continue;
    gaps.push({ kind: "interrupted", from: since, to: time(entry.at), note: "interrupted" });
    since = undefined;
  }
  if (since !== undefined) gaps.push({ kind: "interrupted", from: since, to, note: "interrupted" });
  return gaps;
}

function time(timestamp: string): number {
  return Date.parse(timestamp);
}
