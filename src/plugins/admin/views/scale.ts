import type { Span, SpanKind, Timeline } from "./timeline.ts";

/** Maps times to places on an axis; long waits are narrower than they are long. */
export interface Scale {
  /** Percent of the axis, from 0 to 100. */
  at(time: number): number;
  /** Times that are folded, in order. */
  readonly folds: readonly Period[];
}

interface Period {
  readonly from: number;
  readonly to: number;
}

/** Share of the axis that a wait must have to be folded, and that all of them must have together. */
const LONG = 0.2;
const MOSTLY = 0.75;
/** Percent of the axis that a folded wait keeps, and all of them together. */
const FOLDED = 6;
const ALL_FOLDED = 30;

const BUSY: readonly SpanKind[] = ["work", "failed", "interrupted"];

/** Folds the times in which a job only waited, where they would leave no room for its work. */
export function toScale({ from, to, rows }: Timeline): Scale {
  const length = to - from;
  const folds = idleTimes(rows, { from, to }).filter((idle) => idle.to - idle.from >= length * LONG);
  const folded = folds.reduce((sum, idle) => sum + idle.to - idle.from, 0);
  const rest = length - folded;
  if (folded < length * MOSTLY || rest <= 0)
    return { folds: [], at: (time) => ((time - from) / length) * 100 };
  const width = Math.min(FOLDED, ALL_FOLDED / folds.length);
  const perMs = (100 - width * folds.length) / rest;
  return {
    folds,
    at(time) {
      let [place, since] = [0, from];
      for (const fold of folds) {
        if (time <= fold.from) break;
        place += (fold.from - since) * perMs;
        if (time < fold.to) return place + ((time - fold.from) / (fold.to - fold.from)) * width;
        place += width;
        since = fold.to;
      }
      return place + (time - since) * perMs;
    },
  };
}

function idleTimes(rows: Timeline["rows"], axis: Period): Period[] {
  const leaves = rows.filter((row) => row.kind !== "job" && row.kind !== "case");
  if (leaves.length === 0) return [];
  const spansOf = (some: Timeline["rows"], wanted: (span: Span) => boolean) =>
    merged(some.flatMap((row) => row.spans.filter(wanted)));
  const waits = spansOf(leaves, ({ kind }) => !BUSY.includes(kind));
  const own = spansOf(
    rows.filter((row) => row.kind === "job"),
    ({ kind }) => BUSY.includes(kind),
  );
  // A job that sleeps is in progress, too.
  const busy = merged([...spansOf(leaves, ({ kind }) => BUSY.includes(kind)), ...without(own, waits)]);
  return without([axis], busy);
}

/** Periods that cover the same times and do not touch, in order. */
function merged(periods: readonly Period[]): Period[] {
  const all: { from: number; to: number }[] = [];
  for (const { from, to } of periods.toSorted((a, b) => a.from - b.from)) {
    const last = all.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else all.push({ from, to });
  }
  return all;
}

/** What is left of periods without others; both in order. */
function without(periods: readonly Period[], others: readonly Period[]): Period[] {
  return periods.flatMap(({ from, to }) => {
    const left: Period[] = [];
    let since = from;
    for (const other of others) {
      if (other.to <= since || other.from >= to) continue;
      if (other.from > since) left.push({ from: since, to: other.from });
      since = Math.max(since, other.to);
    }
    if (since < to) left.push({ from: since, to });
    return left;
  });
}
