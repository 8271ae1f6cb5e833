import { FastResponse } from "srvx";

// As pairs: the server writes them out without making a Headers object for every answer.
const JSON_HEADERS: [string, string][] = [
  ["content-type", "application/json; charset=utf-8"],
  ["cache-control", "no-store"],
  ["x-content-type-options", "nosniff"],
];

/** What a handler gave, as an answer: a `Response` as it is, nothing as 204, everything else as JSON. */
export function toAnswer(value: unknown, status = 200): Response {
  if (value instanceof Response) return value;
  if (value === undefined) return new FastResponse(null, { status: 204 });
  return toJsonAnswer(value, status);
}

/** A value as JSON with more headers: cheaper than `event.res`, which has every header copied once more. */
export function toJsonAnswer(
  value: unknown,
  status: number,
  headers: readonly [name: string, value: string][] = [],
): Response {
  const all = headers.length === 0 ? JSON_HEADERS : [...JSON_HEADERS, ...headers];
  return new FastResponse(JSON.stringify(value), { status, headers: all });
}
