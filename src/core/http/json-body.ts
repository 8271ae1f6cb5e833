import { ServiceError } from "../base/errors.ts";

/** Deeper values would overflow the stack of code that walks them later. */
const MAX_DEPTH = 100;
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** The JSON value in a request's body, `undefined` if there is none and `required` allows that. */
export function readJson(bytes: Buffer | undefined, type: string | null, required: boolean): unknown {
  if (bytes === undefined || bytes.length === 0) {
    if (!required) return undefined;
    throw new ServiceError("invalid_request", "The request has no body", {
      status: 400,
      detail: "Send the request's body as JSON.",
    });
  }
  if (type !== "application/json" && !JSON_TYPE.test(type ?? "")) {
    throw new ServiceError("unsupported_media_type", "The request body must be JSON", {
      detail: "Send it with Content-Type: application/json.",
    });
  }
  const value = parse(bytes.toString("utf8"));
  const problem = findProblem(value, MAX_DEPTH);
  if (problem)
    throw new ServiceError("invalid_request", "The request body is not valid", { detail: problem });
  return value;
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

/** Why a parsed value is unusable: it cannot be serialized as it was read. */
function findProblem(value: unknown, depth: number): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return "A number is out of range.";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return `Values are nested deeper than ${MAX_DEPTH} levels.`;
  for (const one of Array.isArray(value) ? value : Object.values(value)) {
    if (typeof one !== "number" && typeof one !== "object") continue;
    const problem = findProblem(one, depth - 1);
    if (problem) return problem;
  }
  return undefined;
}
