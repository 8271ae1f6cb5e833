import { assertBodySize, type H3Event } from "h3";
import { ServiceError } from "../errors.ts";
import { tooLarge } from "./failure.ts";

/** Deeper values would overflow the stack of whoever walks them later. */
const MAX_DEPTH = 100;
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** The JSON value in a request's body, `undefined` where there is none and `required` allows that. */
export async function readJsonBody(event: H3Event, limit: number, required: boolean): Promise<unknown> {
  assertLength(event, limit);
  let text: string;
  try {
    text = await event.req.text();
  } catch (error) {
    if ((error as { status?: number }).status === 413) throw tooLarge(limit);
    throw new ServiceError("invalid_request", "The request body ended early", { status: 400, cause: error });
  }
  if (text === "") {
    if (!required) return undefined;
    throw new ServiceError("invalid_request", "The request has no body", {
      status: 400,
      detail: "Send the request's body as JSON.",
    });
  }
  const type = event.req.headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    throw new ServiceError("unsupported_media_type", "The request body must be JSON", {
      detail: "Send it with Content-Type: application/json.",
    });
  }
  const value = parse(text);
  const problem = findProblem(value, MAX_DEPTH);
  if (problem)
    throw new ServiceError("invalid_request", "The request body is not valid", { detail: problem });
  return value;
}

function assertLength(event: H3Event, limit: number): void {
  const length = event.req.headers.get("content-length");
  if (length !== null && Number(length) > limit) throw tooLarge(limit);
  // With a length, Node.js reads no more than that; without one the stream has to be counted.
  if (length === null || !event.runtime?.node) assertBodySize(event, limit);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch {
    throw new ServiceError("invalid_request", "The request body is not valid JSON", {
      status: 400,
      detail: "Check quotes, commas and brackets.",
    });
  }
}

/** What makes a parsed value unusable: it cannot be written again as it was read. */
function findProblem(value: unknown, depth: number): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return "A number is out of range.";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return `Values are nested deeper than ${MAX_DEPTH} levels.`;
  for (const one of Array.isArray(value) ? value : Object.values(value)) {
    const problem = findProblem(one, depth - 1);
    if (problem) return problem;
  }
  return undefined;
}
