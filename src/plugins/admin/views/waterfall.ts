import { countOf } from "../../../core/base/count-of.ts";
import { escapeHtml } from "../../../core/base/escape-html.ts";
import { withQuery } from "../query.ts";
import { calledOn } from "./calls.ts";
import { formatCost, formatCount, formatDuration, toLabel } from "./format.ts";
import { type Scale, toScale } from "./scale.ts";
import type { Span, Timeline, TimelineRow } from "./timeline.ts";
import { toZoom, zoomed } from "./zoom.ts";

/** Entries of a run log that a page reads: only the beginning and the end of a longer one. */
export const SHOWN_ENTRIES = { first: 2000, last: 8000 } as const;
/** Lines at the beginning and the end that are shown of a longer timeline. */
const SEEN_FIRST = 45;
const SEEN_LAST = 15;
/** Failing and running lines that are shown, wherever they are. */
const SEEN_ALERTS = 60;
/** Lines before and after the selected one that are shown. */
const SEEN_AROUND = 4;
/** Omitting fewer lines would save nothing. */
const LEAST_GAP = 4;
/** Lines of one page, where a person pages through all of them. */
const PAGE = 60;
/** Smallest distance between marks and between segments on a line, as a share of the axis. */
const MARKS = 400;
/** Bars that are narrower, as a share of the axis, have the same width at each size of it: they could not be seen. */
const NARROW = 1.2;
/** Longest name with its notes that no window cuts, in characters. */
const SHORT = 16;
/** Share of the folded waiting that is not named apart from the rest: what is between a question and its answer. */
const HARDLY = 0.01;

/** A row of the waterfall as the template renders it. */
export interface WaterfallRow {
  readonly kind: TimelineRow["kind"];
  readonly name: string;
  /** The tooltip, an attribute, of a name and note that may be cut; empty for short ones. */
  readonly title: string;
  readonly caseId: string | undefined;
  readonly href: string;
  readonly selected: boolean;
  readonly duration: string;
  /** Since when it runs, ISO 8601; empty if it does not. The page's script keeps its duration up to date. */
  readonly since: string;
  readonly cost: string;
  readonly note: string;
  readonly failed: boolean;
  /** Whether it belongs to the line of a case above it. */
  readonly nested: boolean;
  /** SVG shapes; percentages, since the page allows no inline styles. */
  readonly shapes: string;
  /** What the shapes show, for screen readers. */
  readonly spoken: string;
}

/** Lines that follow each other, or a link to those that are not shown between them. */
export interface WaterfallPart {
  readonly items: readonly WaterfallRow[];
  /** Empty if lines are shown. */
  readonly more: string;
  readonly moreHref: string;
}

export interface WaterfallView {
  readonly parts: readonly WaterfallPart[];
  readonly ticks: readonly Tick[];
  /** Places of waits that are narrower than they are long. */
  readonly folds: readonly { readonly x: string; readonly width: string; readonly title: string }[];
  readonly duration: string;
  readonly interruptions: number;
  /** How long the service was down, empty if it was not. */
  readonly downtime: string;
  readonly waited: string;
  /** How much waiting is folded, empty if none is. */
  readonly folded: string;
  /** Whether a wait for a person is part of it, and how much of it is none; empty if hardly any is. */
  readonly foldedForPerson: boolean;
  readonly foldedRest: string;
  /** The link that shows only the lines that failed, or all again; empty where none did. */
  readonly only: { readonly label: string; readonly href: string };
  /** Links to parts of the time; absent where the page shows one case. */
  readonly zoom: ReturnType<typeof toZoom> | undefined;
  /** Links of a page of lines; all empty where the timeline is shown from above. */
  readonly pages: {
    readonly label: string;
    readonly previous: string;
    readonly next: string;
    readonly all: string;
  };
}

/** A label of the axis: the time since its start, or on a clock, where a reader wants absolute times. */
interface Tick {
  readonly x: string;
  readonly label: string;
  /** ISO 8601. */
  readonly at: string;
  /** What says it in absolute times: a clock, or the day too. Marks of less than a second would repeat one: they stay. */
  readonly kind: "tick" | "day" | "short";
}

/** What a page shows of a timeline, as its address says. */
export interface WaterfallQuery {
  readonly run?: number | undefined;
  readonly step?: string | undefined;
  /** The case whose steps are shown. */
  readonly case?: string | undefined;
  /** The first line of a page of lines. */
  readonly line?: number | undefined;
  /** Whether only the lines that failed are shown, and the cases that they are of. */
  readonly only?: "failed" | undefined;
  /** The part of the time that is shown, as `SPAN` has it. */
  readonly span?: string | undefined;
}

export interface WaterfallOptions {
  readonly currency: string;
  /** Path of the job's page. @default the page that shows the timeline */
  readonly path?: string;
  readonly query?: WaterfallQuery;
  /** The job whose timeline it is: it names the messages of its chat. */
  readonly jobId?: string;
  /** The step that is shown beside the timeline. */
  readonly step?: string | undefined;
  /** The case that is open: its steps follow it. @default that of the query, else that of the step */
  readonly case?: string | undefined;
}

/**
 * The layout of a timeline: bars, ticks and labels. A case is one line with the segments of its steps; those of the
 * open case follow it. In a long timeline the beginning, the end, and every failed or running line are shown, with
 * links to the rest.
 */
export function toWaterfall(timeline: Timeline, options: WaterfallOptions): WaterfallView {
  const { path = "", query = {} } = options;
  const whole = withSteadyEnd(timeline);
  const drawn = zoomed(whole, query.span);
  const scale = toScale(drawn);
  const all = toLines(drawn.rows, options);
  const failed = all.filter(({ row }) => row.failed && row.kind !== "job");
  const lines = query.only === undefined ? all : withCases(all, failed);
  const length = timeline.to - timeline.from;
  // The axis may end later than now.
  const lengthOf = ({ from, to }: { readonly from: number; readonly to: number }) =>
    Math.max(0, Math.min(to, timeline.to) - from);
  const folded = scale.folds.reduce((sum, fold) => sum + lengthOf(fold), 0);
  const forPerson = overlapOf(
    scale.folds,
    (timeline.rows[0]?.spans ?? []).filter(({ kind }) => kind === "waiting"),
  );
  const rest = folded - forPerson;
  return {
    ...(query.line === undefined ? overview(lines) : pageOf(lines, query.line)),
    only: onlyFailed(failed.length),
    zoom:
      options.path === undefined
        ? toZoom(
            { whole, part: drawn, scale },
            { query, row: timeline.rows.find(({ step }) => step !== undefined && step === options.step) },
          )
        : undefined,
    ticks: toTicks(drawn, scale, whole.from),
    folds: scale.folds.map((fold) => ({
      x: percent(scale.at(fold.from)),
      width: percent(scale.at(fold.to) - scale.at(fold.from)),
      title: `${formatDuration(lengthOf(fold))} of waiting, folded`,
    })),
    duration: formatDuration(length),
    interruptions: timeline.interruptions,
    downtime: timeline.downtime > 0 ? formatDuration(timeline.downtime) : "",
    waited: timeline.waited > 0 ? formatDuration(timeline.waited) : "",
    folded: folded > 0 ? formatDuration(folded) : "",
    foldedForPerson: forPerson > 0,
    foldedRest: rest > folded * HARDLY ? formatDuration(rest) : "",
  };

  function draw(line: Line): WaterfallRow {
    const { row } = line;
    const { run, line: page, only, span } = query;
    const href = row.step
      ? withQuery(path, { run, line: page, only, span, step: row.step })
      : row.kind === "case"
        ? withQuery(path, { run, only, span, case: row.case_id })
        : "";
    return toRow(line, { timeline, part: drawn === whole ? undefined : drawn, scale, options, href });
  }

  function linkTo(line: number | undefined): string {
    return withQuery("", { ...query, line }) || "?";
  }

  function onlyFailed(count: number): WaterfallView["only"] {
    if (query.only !== undefined)
      return {
        label: "All lines",
        href: withQuery("", { ...query, only: undefined, line: undefined }) || "?",
      };
    if (count === 0) return { label: "", href: "" };
    return {
      label: `Failed only (${formatCount(count)})`,
      href: withQuery("", { ...query, only: "failed", line: undefined }),
    };
  }

  function overview(all: readonly Line[]) {
    const parts = stretches(all, options.step).map(({ lines: some, from, isGap }): WaterfallPart => {
      if (!isGap) return { items: some.map(draw), more: "", moreHref: "" };
      return { items: [], more: countOf(some.length, "more line"), moreHref: linkTo(from) };
    });
    return { parts, pages: { label: "", previous: "", next: "", all: "" } };
  }

  function pageOf(all: readonly Line[], given: number) {
    const from = Math.min(given, Math.max(0, all.length - 1));
    const to = Math.min(from + PAGE, all.length);
    return {
      parts: [{ items: all.slice(from, to).map(draw), more: "", moreHref: "" }],
      pages: {
        label: `Lines ${from + 1} to ${to} of ${all.length}`,
        previous: from > 0 ? linkTo(Math.max(0, from - PAGE)) : "",
        next: to < all.length ? linkTo(to) : "",
        all: linkTo(undefined),
      },
    };
  }
}

/** How long the times of both last together, milliseconds. */
function overlapOf(some: readonly Pick<Span, "from" | "to">[], others: readonly Pick<Span, "from" | "to">[]) {
  return some.reduce(
    (sum, one) =>
      others.reduce(
        (part, { from, to }) => part + Math.max(0, Math.min(to, one.to) - Math.max(from, one.from)),
        sum,
      ),
    0,
  );
}

/**
 * The axis of a job that runs ends a little later than now, and moves on in steps of a thirtieth of its length or less:
 * with each refresh of an open page, all bars would be drawn at other places otherwise.
 */
function withSteadyEnd(timeline: Timeline): Timeline {
  const { from, to, rows } = timeline;
  if (!rows[0]?.running) return timeline;
  const step = 2 ** Math.ceil(Math.log2((to - from) / 64));
  return { ...timeline, to: from + Math.ceil((to - from) / step) * step };
}

/** A row that is drawn, and the segments of a case. */
interface Line {
  readonly row: TimelineRow;
  readonly spans: readonly Span[];
  readonly nested: boolean;
}

/** Cases with closed lines hide their steps, except those that failed or run. */
function toLines(
  rows: readonly TimelineRow[],
  { query, case: opened = query?.case, step }: WaterfallOptions,
): Line[] {
  const shown = opened ?? rows.find((row) => row.step !== undefined && row.step === step)?.case_id;
  const cases = new Set(rows.flatMap((row) => (row.kind === "case" ? [row.case_id] : [])));
  const steps = new Map<string, TimelineRow[]>();
  for (const row of rows) {
    if (row.kind === "case" || row.case_id === undefined) continue;
    const known = steps.get(row.case_id);
    if (known) known.push(row);
    else steps.set(row.case_id, [row]);
  }
  // The only case of a job is open.
  const open = cases.size === 1 ? [...cases][0] : shown;
  return rows.flatMap((row): Line[] => {
    const own = row.kind === "case" ? steps.get(row.case_id ?? "") : undefined;
    if (own) return [{ row, spans: segmentsOf(row, own), nested: false }];
    const nested = row.case_id !== undefined && cases.has(row.case_id) && row.kind !== "case";
    if (nested && row.case_id !== open && !isAlert(row)) return [];
    return [{ row, spans: row.spans, nested }];
  });
}

/** Lines with those of the cases that they are of. */
function withCases(all: readonly Line[], some: readonly Line[]): Line[] {
  const wanted = new Set(some);
  const cases = new Set(some.map(({ row }) => row.case_id));
  return all.filter(
    (line) =>
      wanted.has(line) ||
      line.row.kind === "job" ||
      (line.row.kind === "case" && cases.has(line.row.case_id)),
  );
}

/** The line of a case: what its steps did, on a thin line of its own time. */
function segmentsOf(row: TimelineRow, steps: readonly TimelineRow[]): Span[] {
  const base: Span = { kind: "open", from: row.from, to: row.to };
  const gaps = row.spans.filter(({ kind }) => kind === "interrupted");
  const colored = steps.flatMap(({ spans, work, name }) =>
    spans.map((span): Span => ({ ...span, kind: kindOf(span, work), note: name })),
  );
  return [base, ...colored, ...gaps];
}

function isAlert(row: TimelineRow): boolean {
  return row.failed || row.unfinished === true || (row.running && row.kind !== "case");
}

/** Splits the lines into those that are shown and those that are not. */
function stretches(lines: readonly Line[], step: string | undefined) {
  const alerts = lines.filter(({ row }) => isAlert(row));
  const selected = lines.findIndex(({ row }) => row.step !== undefined && row.step === step);
  const seen = new Set([
    ...lines.slice(0, SEEN_FIRST),
    ...alerts.slice(-SEEN_ALERTS),
    ...lines.filter(({ nested }) => nested).slice(-SEEN_LAST),
    ...(selected === -1 ? [] : lines.slice(Math.max(0, selected - SEEN_AROUND), selected + SEEN_AROUND + 1)),
    ...lines.slice(-SEEN_LAST),
  ]);
  const cases = new Map(
    lines.flatMap((line) => (line.row.kind === "case" ? [[line.row.case_id, line]] : [])),
  );
  for (const { row } of [...seen]) {
    const own = row.case_id === undefined ? undefined : cases.get(row.case_id);
    if (own) seen.add(own);
  }
  const parts: { lines: Line[]; from: number; isGap: boolean }[] = [];
  const add = (isGap: boolean, some: readonly Line[], from: number) => {
    const last = parts.at(-1);
    if (last?.isGap === isGap) last.lines.push(...some);
    else if (some.length > 0) parts.push({ lines: [...some], from, isGap });
  };
  let hidden: Line[] = [];
  const close = (at: number) => {
    add(hidden.length >= LEAST_GAP, hidden, at - hidden.length);
    hidden = [];
  };
  for (const [at, line] of lines.entries()) {
    if (!seen.has(line)) {
      hidden.push(line);
      continue;
    }
    close(at);
    add(false, [line], at);
  }
  close(lines.length);
  return parts;
}

interface Drawing {
  readonly timeline: Timeline;
  /** The part of it that is shown, unless it is all. */
  readonly part: Timeline | undefined;
  readonly scale: Scale;
  readonly options: WaterfallOptions;
  readonly href: string;
}

function toRow(
  { row, spans, nested }: Line,
  { timeline, part, scale, options, href }: Drawing,
): WaterfallRow {
  const name =
    row.kind === "event" ? calledOn({ call: row.kind, name: row.name }, options.jobId ?? "") : row.name;
  const notes = [
    row.attempts > 1 ? `${row.attempts} attempts` : "",
    row.unfinished ? "not finished" : "",
    row.kind === "question" && !row.unfinished ? (row.running ? "waits for an answer" : "answered") : "",
    row.running && row.kind === "step" ? "running" : "",
  ].filter((note) => note !== "");
  const whole = [name, ...notes].join(" · ");
  const duration = formatDuration(row.to - row.from);
  return {
    kind: row.kind,
    name,
    title: whole.length > SHORT ? `title="${escapeHtml(whole)}"` : "",
    caseId: row.case_id,
    href,
    selected:
      row.step === undefined
        ? row.kind === "case" && row.case_id === (options.case ?? options.query?.case)
        : row.step === options.step,
    duration,
    since: row.running ? new Date(row.from).toISOString() : "",
    cost: row.cost === 0 ? "" : formatCost(row.cost, options.currency),
    note: notes.join(", "),
    failed: row.failed,
    nested,
    // The segments of a case say what its marks would.
    shapes:
      bars(spans, { row, part, scale }) + (spans[0]?.kind === "open" ? "" : moments({ row, part, scale })),
    spoken: `starts after ${formatDuration(row.from - timeline.from)}, takes ${duration}${row.failed ? ", failed" : ""}`,
  };
}

function kindOf(span: Span, work: TimelineRow["work"]): Span["kind"] {
  return span.kind === "work" && work !== undefined ? work : span.kind;
}

/** A row on the axis; where that is a part of the time, only what is in it. */
interface OnAxis {
  readonly row: TimelineRow;
  readonly part: Timeline | undefined;
  readonly scale: Scale;
}

function bars(spans: readonly Span[], { row, part, scale }: OnAxis): string {
  const isCase = spans[0]?.kind === "open";
  let last = "";
  const seen = part ? spans.filter(({ from, to }) => to >= part.from && from <= part.to) : spans;
  return seen
    .map((span) => {
      const kind = kindOf(span, row.work);
      // What a clock that was set back has put before the job is not drawn.
      const x = onAxis(scale.at(span.from));
      const width = onAxis(scale.at(span.to)) - x;
      // Segments of the same kind at the same place are one.
      const place = `${kind} ${Math.round((x / 100) * MARKS)} ${Math.round((width / 100) * MARKS)}`;
      if (isCase && place === last) return "";
      last = place;
      return bar(kind, {
        x,
        width,
        title: isCase ? "" : titleOf(span, kind),
      });
    })
    .join("");
}

function onAxis(place: number): number {
  return Math.max(0, Math.min(100, place));
}

function titleOf(span: Span, kind: Span["kind"]): string {
  return `${toLabel(kind)} ${formatDuration(span.to - span.from)}${span.note ? `: ${span.note}` : ""}`;
}

function bar(kind: Span["kind"], { x, width, title }: { x: number; width: number; title: string }): string {
  const fill = kind === "interrupted" ? ' fill="url(#fall-hatch)"' : "";
  const place = `x="${percent(x)}" y="${kind === "open" ? 8 : 2}" width="${width < NARROW ? 2 : percent(width)}" height="${kind === "open" ? 2 : 14}" rx="${kind === "open" ? 1 : 2}"`;
  const end = title === "" ? "/>" : `><title>${escapeHtml(title)}</title></rect>`;
  return `<rect class="w-${kind}"${fill} ${place}${end}`;
}

function moments({ row, part, scale }: OnAxis): string {
  const seen = part ? row.moments.filter(({ at }) => at >= part.from && at <= part.to) : row.moments;
  // Those at the same position are one mark.
  const places = new Map(seen.map((one) => [Math.round((scale.at(one.at) / 100) * MARKS), one]));
  return [...places]
    .map(([place, { note }]) => {
      const x = Math.min(99.8, Math.max(0, (place / MARKS) * 100));
      return `<rect class="w-moment" x="${percent(x)}" y="0" width="2" height="18"><title>${escapeHtml(note)}</title></rect>`;
    })
    .join("");
}

/** Four to seven round marks on the axis; after a fold only where it ends. In a part, they count from its start. */
function toTicks({ from, to }: Timeline, scale: Scale, start: number): Tick[] {
  const [first] = scale.folds;
  const length = (first?.from ?? to) - from;
  const share = scale.at(first?.from ?? to) / 100;
  // Labels that count from the start of a part have a sign more.
  const most = Math.max(1, Math.round((start < from ? 4 : 6) * share));
  const step =
    STEPS.find((one) => length / one <= most) ?? Math.ceil(length / most / 86_400_000) * 86_400_000;
  const ticks: { at: number; x: number }[] = [];
  for (let at = 0; at < length || at === 0; at += step) ticks.push({ at, x: scale.at(from + at) });
  for (const fold of scale.folds) ticks.push({ at: fold.to - from, x: scale.at(fold.to) });
  // The last part is left free: a label there would overflow the edge.
  const shown = ticks.filter(({ x }, at) => x < 93 && x - (ticks[at - 1]?.x ?? -100) > 5);
  const kind = step < 1000 ? "short" : to - from < 86_400_000 ? "tick" : "day";
  return shown.map(({ at, x }) => ({
    x: percent(x),
    label:
      at > 0
        ? `${start < from ? "+" : ""}${formatDuration(at)}`
        : start < from
          ? formatDuration(from - start)
          : "0",
    at: new Date(from + at).toISOString(),
    kind,
  }));
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000,
] as const;

function percent(value: number): string {
  return `${Math.round(value * 100) / 100}%`;
}
