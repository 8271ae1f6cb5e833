import * as v from "valibot";
import type { ServiceError } from "../base/errors.ts";
import { type ErrorForm, inOneText } from "./error-form.ts";

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const INTERNAL_ERROR = -32603;
/** The first code that JSON-RPC leaves to servers. */
const SERVER_ERROR = -32000;

/** The body of an error, as JSON-RPC 2.0 has it. */
export const JsonRpcErrorSchema = v.object({
  jsonrpc: v.literal("2.0"),
  id: v.nullable(v.union([v.string(), v.number()])),
  error: v.object({ code: v.number(), message: v.string(), data: v.optional(v.unknown()) }),
});

/**
 * Errors of a route for JSON-RPC that its handler has not seen: they come before the id of the request is known.
 * `dataOf` adds what a protocol says beside code and text.
 */
export function jsonRpcErrors(dataOf?: (error: ServiceError) => unknown): ErrorForm {
  return {
    schema: JsonRpcErrorSchema,
    // A request that is not understood is 400 for HTTP.
    status: ({ status }) => (status === 422 ? 400 : status),
    toBody: (error) => ({
      jsonrpc: "2.0",
      id: null,
      error: { code: codeOf(error), message: inOneText(error), ...(dataOf && { data: dataOf(error) }) },
    }),
  };
}

function codeOf({ type, status }: ServiceError): number {
  if (status >= 500 && type !== "unavailable") return INTERNAL_ERROR;
  if (type === "invalid_request") return status === 400 ? PARSE_ERROR : INVALID_REQUEST;
  return SERVER_ERROR;
}
