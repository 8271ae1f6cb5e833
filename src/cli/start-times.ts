import { notedTimes } from "../core/base/note-time.ts";

/** What `svc start --timing` prints: where the time from the start of the process until now went. */
export function describeTimes(): string {
  const rows = [...notedTimes(), { part: "in all", milliseconds: performance.now() }];
  const width = Math.max(...rows.map(({ part }) => part.length));
  return rows
    .map(({ part, milliseconds }) => `  ${part.padEnd(width)}  ${milliseconds.toFixed(0).padStart(6)} ms`)
    .join("\n");
}
