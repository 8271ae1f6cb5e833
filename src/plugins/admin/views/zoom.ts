import { withQuery } from "../query.ts";
import { formatDuration } from "./format.ts";
import type { Scale } from "./scale.ts";
import type { Timeline, TimelineRow } from "./timeline.ts";

/** A part of a timeline in an address: milliseconds since its start, such as `1200-5400`. */
export const SPAN = /^\d{1,12}-\d{1,12}$/;
/** A part has at least so many milliseconds. */
const SHORTEST = 4;
/** Parts of the axis that lead to themselves. */
const PARTS = 6;
/** Room around a step that is zoomed to, as a share of its own time. */
const AROUND = 0.05;

/** The part of a timeline that a query names, with the rows that have a time in it; all of it without one. */
export function zoomed(timeline: Timeline, span: string | undefined): Timeline {
  const [first = 0, last = 0] = (span ?? "").split("-").map(Number);
  const from = timeline.from + first;
  const to = Math.min(timeline.to, timeline.from + last);
  if (to - from < SHORTEST) return timeline;
  const rows = timeline.rows.filter((row) => row.kind === "job" || (row.to >= from && row.from <= to));
  return { ...timeline, from, to, rows };
}

/** Links from the part that is shown to others; empty where there is none. */
export function toZoom(
  { whole, part, scale }: { readonly whole: Timeline; readonly part: Timeline; readonly scale: Scale },
  { query, row }: { readonly query: object; readonly row: TimelineRow | undefined },
) {
  const length = part.to - part.from;
  const isWhole = length === whole.to - whole.from;
  const hrefOf = (from: number, to: number): string => {
    const first = Math.max(0, Math.floor(from - whole.from));
    const last = Math.ceil(Math.min(to, whole.to) - whole.from);
    const span = first === 0 && to >= whole.to ? undefined : `${first}-${last}`;
    return withQuery("", { ...query, span, line: undefined }) || "?";
  };
  const moved = (by: number): string => {
    const from = Math.max(whole.from, Math.min(whole.to - length, part.from + by));
    return from === part.from ? "" : hrefOf(from, from + length);
  };
  const at = (place: number) => timeAt(place, part, scale);
  const mayZoomIn = at(75) - at(25) >= SHORTEST;
  const inHref = mayZoomIn ? hrefOf(at(25), at(75)) : "";
  const edges = Array.from({ length: PARTS + 1 }, (_, edge) => (edge / PARTS) * 100);
  const offset = (time: number) => formatDuration(time - whole.from);
  const room = row && Math.max(SHORTEST, (row.to - row.from) * AROUND);
  return {
    label: isWhole
      ? ""
      : `${offset(part.from)} to ${offset(part.to)} of ${formatDuration(whole.to - whole.from)}`,
    inHref,
    ways: [
      { label: "Earlier", href: moved(-length / 2) },
      { label: "Later", href: moved(length / 2) },
      { label: "Zoom in", href: inHref },
      { label: "Zoom out", href: hrefOf(part.from - length / 2, part.to + length / 2) },
      { label: "Whole time", href: hrefOf(whole.from, whole.to) },
    ].filter(({ href }) => href !== ""),
    // To the selected step.
    stepHref: row && room && whole.to - whole.from > SHORTEST ? hrefOf(row.from - room, row.to + room) : "",
    // Parts of the axis, each with the link that fills the axis with it.
    parts: !mayZoomIn
      ? []
      : edges.slice(1).flatMap((end, index) => {
          const [from, to] = [at(edges[index]!), at(end)];
          if (to - from < SHORTEST) return [];
          return {
            ...{ x: `${edges[index]!.toFixed(2)}%`, width: `${(100 / PARTS).toFixed(2)}%` },
            ...{ title: `Zoom to ${offset(from)} to ${offset(to)}`, href: hrefOf(from, to) },
          };
        }),
  };
}

/** The time at a place of the axis, in percent. */
function timeAt(place: number, { from, to }: Timeline, scale: Scale): number {
  let [low, high] = [from, to];
  while (high - low > 0.5) {
    const middle = (low + high) / 2;
    if (scale.at(middle) < place) low = middle;
    else high = middle;
  }
  return Math.round(high);
}
