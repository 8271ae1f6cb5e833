import { escapeHtml } from "./escape.ts";
import { type Fold, fold } from "./fold.ts";
import { countOf, formatCost, formatDuration, toLabel } from "./format.ts";
import type { Span, Timeline, TimelineRow } from "./timeline.ts";

/** Rows beyond this are counted, not drawn. */
const MOST_ROWS = 300;
/** The rest is opened by hand. */
const SEEN_ROWS = 60;
/** Narrower bars could not be seen. */
const LEAST_WIDTH = 0.35;

/** A row of the waterfall as the template writes it. */
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
  /** The same for people who do not see the shapes. */
  readonly spoken: string;
}

export interface WaterfallView {
  readonly parts: readonly Fold<WaterfallRow>[];
  readonly more: number;
  readonly ticks: readonly { readonly x: string; readonly label: string }[];
  readonly duration: string;
  readonly interruptions: number;
  readonly waited: string;
}

/** Lays a timeline out: bars, ticks and labels. */
export function toWaterfall(timeline: Timeline, currency: string): WaterfallView {
  const length = timeline.to - timeline.from;
  const rows = timeline.rows.slice(0, MOST_ROWS);
  return {
    parts: fold(
      rows.map((row) => toRow(row, timeline, currency)),
      SEEN_ROWS,
      (count) => countOf(count, "more line"),
    ),
    more: timeline.rows.length - rows.length,
    ticks: toTicks(length),
    duration: formatDuration(length),
    interruptions: timeline.interruptions,
    waited: timeline.waited > 0 ? formatDuration(timeline.waited) : "",
  };
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
  return `<rect class="w-${span.kind}" x="${percent(x)}" y="2" width="${percent(width)}" height="10" rx="2"><title>${escapeHtml(title)}</title></rect>`;
}

function moments(row: TimelineRow, axis: Timeline): string {
  const length = axis.to - axis.from;
  return row.moments
    .slice(0, 100)
    .map(({ at, note }) => {
      const x = Math.min(99.8, Math.max(0, ((at - axis.from) / length) * 100));
      return `<rect class="w-moment" x="${percent(x)}" y="0" width="2" height="14"><title>${escapeHtml(note)}</title></rect>`;
    })
    .join("");
}

/** Four to seven round marks on the axis. */
function toTicks(length: number): { x: string; label: string }[] {
  const step = STEPS.find((one) => length / one <= 6) ?? Math.ceil(length / 6 / 86_400_000) * 86_400_000;
  const ticks: { x: string; label: string }[] = [];
  // The last stretch is left free: a label there would run over the edge.
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
