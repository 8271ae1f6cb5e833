import { FastResponse } from "srvx";
import type { Redactor } from "../base/redactor.ts";
import { cleanAnswer } from "./clean-answer.ts";
import type { AddedRoute } from "./route.ts";

/** Headers of every response for browsers, unless it sets its own. */
export const SECURITY_HEADERS: readonly (readonly [name: string, value: string])[] = [
  ["x-content-type-options", "nosniff"],
  ["referrer-policy", "no-referrer"],
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'"],
];

// As pairs: the server writes them without creating a Headers object for every response.
const JSON_HEADERS = [
  ["content-type", "application/json; charset=utf-8"],
  ["cache-control", "no-store"],
  ...SECURITY_HEADERS,
] as [string, string][];
const NO_BODY_HEADERS = [...SECURITY_HEADERS] as [string, string][];

/** A value to respond with, with its own status and headers. */
export class Answer {
  readonly value: unknown;
  readonly status: number;
  readonly headers: readonly [name: string, value: string][];

  constructor(value: unknown, status: number, headers: readonly [name: string, value: string][] = []) {
    this.value = value;
    this.status = status;
    this.headers = headers;
  }
}

/**
 * Creates a route's responses from its handler's results: a `Response` unchanged, undefined as 204,
 * everything else as JSON without known secrets. All have the security headers.
 */
export function createAnswerer(
  { status = 200, responses, stored }: Pick<AddedRoute, "status" | "responses" | "stored">,
  redactor: Redactor,
): (given: unknown) => Response {
  const toJson = (value: unknown, code: number, headers: [string, string][]): Response => {
    const text = JSON.stringify(value);
    if (stored || !redactor.finds(text)) return new FastResponse(text, { status: code, headers });
    const clean = cleanAnswer(value, responses[code]?.schema, redactor);
    return new FastResponse(JSON.stringify(clean), { status: code, headers });
  };
  return (given) => {
    if (given instanceof Response) return withSecurityHeaders(given);
    if (given === undefined) return new FastResponse(null, { status: 204, headers: NO_BODY_HEADERS });
    if (!(given instanceof Answer)) return toJson(given, status, JSON_HEADERS);
    // Cheaper than `event.res`, which copies every header again.
    return toJson(given.value, given.status, [...JSON_HEADERS, ...given.headers]);
  };
}

/** JSON that the service has created itself. */
export function jsonResponse(
  value: unknown,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new FastResponse(JSON.stringify(value), {
    status,
    headers: [...JSON_HEADERS, ...Object.entries(headers)],
  });
}

/** Adds the security headers that a response does not have. */
export function withSecurityHeaders(response: Response): Response {
  for (const [name, value] of SECURITY_HEADERS) {
    if (!response.headers.has(name)) response.headers.set(name, value);
  }
  return response;
}
