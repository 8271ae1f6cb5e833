import { escapeHtml } from "./escape.ts";
import { countOf, formatCost, formatDuration, toLabel } from "./format.ts";
import type { Span, Timeline, TimelineRow } from "./timeline.ts";

/** Entries of a run log that a page reads: only the beginning and the end of a longer one. */
export const SHOWN_ENTRIES = { first: 2000, last: 8000 } as const;
/** Lines that a page renders; folded ones beyond it are only counted. */
const MOST_ROWS = 300;
/** Lines at the beginning and the end that are shown unfolded. */
const SEEN_FIRST = 45;
const SEEN_LAST = 15;
/** Failing and running lines that are shown unfolded, wherever they are. */
const SEEN_ALERTS = 100;
/** Folding fewer lines would save nothing. */
const LEAST_FOLD = 4;
/** Smallest distance between marks on a line, as a share of the axis. */
const MARKS = 400;
/** Narrower bars could not be seen. */
const LEAST_WIDTH = 0.35;

/** A row of the waterfall as the template renders it. */
export interface WaterfallRow {
  readonly kind: TimelineRow["kind"];
  readonly name: string;
  readonly href: string;
  readonly duration: string;
  readonly cost: string;
  readonly note: string;
  readonly failed: boolean;
  readonly running: boolean;
  /** SVG shapes; percentages, since the page allows no inline styles. */
  readonly shapes: string;
  /** The same for screen readers. */
  readonly spoken: string;
}

/** A section of lines; one with a label is folded and opened by it. */
export interface WaterfallPart {
  readonly label: string;
  readonly items: readonly WaterfallRow[];
  /** Says that lines at the end of a folded section are omitted; empty if all are shown. */
  readonly note: string;
}

export interface WaterfallView {
  readonly parts: readonly WaterfallPart[];
  readonly ticks: readonly { readonly x: string; readonly label: string }[];
  readonly duration: string;
  readonly interruptions: number;
  /** How long the service was down, empty if it was not. */
  readonly downtime: string;
  readonly waited: string;
}

/**
 * The layout of a timeline: bars, ticks and labels. In a long one the beginning, the end, and every failed or
 * running line are visible; the rest is folded.
 */
export function toWaterfall(timeline: Timeline, currency: string, most = MOST_ROWS): WaterfallView {
  const seen = seenRows(timeline.rows);
  let budget = Math.max(0, most - seen.size);
  const parts: WaterfallPart[] = [];
  for (const { rows, folded } of stretches(timeline.rows, seen)) {
    const drawn = folded ? rows.slice(0, budget) : rows;
    if (folded) budget -= drawn.length;
    const left = rows.length - drawn.length;
    parts.push({
      label: folded ? countOf(rows.length, "more line") : "",
      items: drawn.map((row) => toRow(row, timeline, currency)),
      note: left > 0 ? `${countOf(left, "line")} not shown.` : "",
    });
  }
  const length = timeline.to - timeline.from;
  return {
    parts,
    ticks: toTicks(length),
    duration: formatDuration(length),
    interruptions: timeline.interruptions,
    downtime: timeline.downtime > 0 ? formatDuration(timeline.downtime) : "",
    waited: timeline.waited > 0 ? formatDuration(timeline.waited) : "",
  };
}

/** The visible lines; a case's lines include the case's own. */
function seenRows(rows: readonly TimelineRow[]): ReadonlySet<TimelineRow> {
  const alerts = rows.filter((row) => row.failed || (row.running && row.kind !== "case"));
  const seen = new Set([
    ...rows.slice(0, SEEN_FIRST),
    ...alerts.slice(-SEEN_ALERTS),
    ...rows.slice(-SEEN_LAST),
  ]);
  const cases = new Map(rows.filter((row) => row.kind === "case").map((row) => [row.case_id, row]));
  for (const { case_id } of [...seen]) {
    const own = case_id === undefined ? undefined : cases.get(case_id);
    if (own) seen.add(own);
  }
  return seen;
}

/** Splits the lines into visible and folded sections. */
function stretches(rows: readonly TimelineRow[], seen: ReadonlySet<TimelineRow>) {
  const parts: { folded: boolean; rows: TimelineRow[] }[] = [];
  const add = (folded: boolean, some: readonly TimelineRow[]) => {
    const last = parts.at(-1);
    if (last?.folded === folded) last.rows.push(...some);
    else parts.push({ folded, rows: [...some] });
  };
  let hidden: TimelineRow[] = [];
  const close = () => {
    if (hidden.length > 0) add(hidden.length >= LEAST_FOLD, hidden);
    hidden = [];
  };
  for (const row of rows) {
    if (!seen.has(row)) hidden.push(row);
    else {
      close();
      add(false, [row]);
    }
  }
  close();
  return parts;
}

function toRow(row: TimelineRow, timeline: Timeline, currency: string): WaterfallRow {
  const notes = [
    row.attempts > 1 ? `${row.attempts} tries` : "",
    row.kind === "question" ? (row.running ? "waits for an answer" : "answered") : "",
    row.running && row.kind === "step" ? "running" : "",
  ].filter((note) => note !== "");
  const duration = formatDuration(row.to - row.from);
  return {
    kind: row.kind,
    name: row.name,
    href: row.kind === "case" ? `/admin/cases/${encodeURIComponent(row.case_id ?? "")}` : "",
    duration,
    cost: row.cost === 0 ? "" : formatCost(row.cost, currency),
    note: notes.join(", "),
    failed: row.failed,
    running: row.running,
    shapes: row.spans.map((span) => bar(span, timeline)).join("") + moments(row, timeline),
    spoken: `starts after ${formatDuration(row.from - timeline.from)}, takes ${duration}${row.failed ? ", failed" : ""}`,
  };
}

function bar(span: Span, axis: Timeline): string {
  const length = axis.to - axis.from;
  const width = Math.max(LEAST_WIDTH, ((span.to - span.from) / length) * 100);
  const x = Math.min(100 - width, ((span.from - axis.from) / length) * 100);
  const title = `${toLabel(span.kind)} ${formatDuration(span.to - span.from)}${span.note ? `: ${span.note}` : ""}`;
  const fill = span.kind === "interrupted" ? ' fill="url(#fall-hatch)"' : "";
  return `<rect class="w-${span.kind}"${fill} x="${percent(x)}" y="2" width="${percent(width)}" height="10" rx="2"><title>${escapeHtml(title)}</title></rect>`;
}

function moments(row: TimelineRow, axis: Timeline): string {
  const length = axis.to - axis.from;
  // Those at the same position are one mark.
  const places = new Map(
    row.moments.map((one) => [Math.round(((one.at - axis.from) / length) * MARKS), one]),
  );
  return [...places]
    .map(([place, { note }]) => {
      const x = Math.min(99.8, Math.max(0, (place / MARKS) * 100));
      return `<rect class="w-moment" x="${percent(x)}" y="0" width="2" height="14"><title>${escapeHtml(note)}</title></rect>`;
    })
    .join("");
}

/** Four to seven round marks on the axis. */
function toTicks(length: number): { x: string; label: string }[] {
  const step = STEPS.find((one) => length / one <= 6) ?? Math.ceil(length / 6 / 86_400_000) * 86_400_000;
  const ticks: { x: string; label: string }[] = [];
  // The last part is left free: a label there would overflow the edge.
  for (let at = 0; at < length * 0.93; at += step) {
    ticks.push({ x: percent((at / length) * 100), label: at === 0 ? "0" : formatDuration(at) });
  }
  return ticks;
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000,
] as const;

function percent(value: number): string {
  return `${Math.round(value * 100) / 100}%`;
}
