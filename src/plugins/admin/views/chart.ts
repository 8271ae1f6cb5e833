import { countOf } from "../../../core/base/count-of.ts";
import { escapeHtml } from "../../../core/base/escape-html.ts";

/** One column of the chart, its parts from the bottom up. */
export interface ChartColumn {
  readonly label: string;
  /** ISO 8601: the label starts with this time, in UTC. */
  readonly from?: string;
  /** Where a click on it leads. */
  readonly href?: string;
  readonly parts: readonly { readonly name: string; readonly count: number }[];
}

export interface ChartSize {
  readonly width: number;
  readonly height: number;
}

/** What a chart counts. */
export interface ChartUnit {
  /** The value at the top, for the largest column. */
  top(most: number): number;
  say(part: ChartColumn["parts"][number]): string;
  whole(total: number): string;
}

const JOBS: ChartUnit = {
  top: niceTop,
  say: ({ name, count }) => `${count} ${name}`,
  whole: (total) => countOf(total, "job"),
};

const GAP = 0.28;

/**
 * Stacked columns as SVG: no script, no inline style; the numbers are in the tooltips and in the description.
 */
export function renderChart(
  columns: readonly ChartColumn[],
  title: string,
  { width, height }: ChartSize = { width: 720, height: 120 },
  unit: ChartUnit = JOBS,
): string {
  const top = unit.top(Math.max(0, ...columns.map(totalOf)));
  const slot = width / Math.max(1, columns.length);
  const grid = [0.5, 1].map((share) => {
    const y = round(height - height * share + 0.5);
    return `<line class="c-grid" x1="0" x2="${width}" y1="${y}" y2="${y}"/>`;
  });
  const bars = columns.map((column, at) => drawColumn(column, { x: at * slot, slot, height, top, unit }));
  return (
    `<svg class="chart" viewBox="0 0 ${width} ${height + 1}" preserveAspectRatio="none" role="${columns.some(isLinked) ? "group" : "img"}" aria-label="${escapeHtml(describe(columns, title, unit))}">` +
    `${grid.join("")}${bars.join("")}<line class="c-base" x1="0" x2="${width}" y1="${height + 0.5}" y2="${height + 0.5}"/></svg>`
  );
}

/** The value at the top of the axis. */
export function niceTop(most: number): number {
  return most <= 4 ? 4 : roundUp(most);
}

/** The next value that is easy to read, of any size above zero. */
export function roundUp(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return (
    [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((value) => value >= most) ?? most
  );
}

function drawColumn(
  column: ChartColumn,
  at: { x: number; slot: number; height: number; top: number; unit: ChartUnit },
): string {
  const said = column.parts.filter((part) => part.count > 0).map((part) => at.unit.say(part));
  const title = `${column.label}: ${said.length === 0 ? "none" : said.join(", ")}`;
  const x = round(at.x + (at.slot * GAP) / 2);
  const width = round(at.slot * (1 - GAP));
  let y = at.height;
  const parts = column.parts.map((part) => {
    if (part.count === 0) return "";
    const size = Math.max(1.5, (part.count / at.top) * at.height);
    y -= size;
    return `<rect class="c-${escapeHtml(part.name)}" x="${x}" y="${round(y)}" width="${width}" height="${round(size)}"/>`;
  });
  const from = column.from === undefined ? "" : ` data-from="${escapeHtml(column.from)}"`;
  const drawn = `<g><title${from}>${escapeHtml(title)}</title><rect class="c-hit" x="${round(at.x)}" y="0" width="${round(at.slot)}" height="${at.height}"/>${parts.join("")}</g>`;
  return isLinked(column)
    ? `<a href="${escapeHtml(column.href!)}"${from} aria-label="${escapeHtml(title)}">${drawn}</a>`
    : drawn;
}

function describe(columns: readonly ChartColumn[], title: string, unit: ChartUnit): string {
  const sums = new Map<string, number>();
  for (const part of columns.flatMap((column) => column.parts)) {
    sums.set(part.name, (sums.get(part.name) ?? 0) + part.count);
  }
  const total = [...sums.values()].reduce((sum, count) => sum + count, 0);
  const parts =
    sums.size > 1 || unit === JOBS ? [...sums].map(([name, count]) => unit.say({ name, count })) : [];
  return `${title}: ${unit.whole(total)}${parts.length > 0 ? ` (${parts.join(", ")})` : ""}`;
}

/** An empty column has nothing to lead to. */
function isLinked(column: ChartColumn): boolean {
  return column.href !== undefined && totalOf(column) > 0;
}

function totalOf(column: ChartColumn): number {
  return column.parts.reduce((sum, part) => sum + part.count, 0);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
