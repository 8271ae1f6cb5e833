/** How names of noted times begin in the timeline of a process. */
const PREFIX = "svc start: ";

/** A part of a start, and how long it took. */
export interface NotedTime {
  readonly part: string;
  readonly milliseconds: number;
}

/**
 * Notes how long a part of a start took since `began`, of `performance.now()`. It is kept in the timeline of the process,
 * where `svc start --timing` finds it, also if the project has another copy of this package.
 */
export function noteTime(part: string, began: number): void {
  performance.measure(`${PREFIX}${part}`, { start: began });
}

/** All that was noted, in the order in which the parts began. */
export function notedTimes(): NotedTime[] {
  const noted = performance.getEntriesByType("measure").filter(({ name }) => name.startsWith(PREFIX));
  return noted.map(({ name, duration }) => ({ part: name.slice(PREFIX.length), milliseconds: duration }));
}
