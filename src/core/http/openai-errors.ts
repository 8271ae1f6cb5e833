import * as v from "valibot";
import type { ServiceError } from "../base/errors.ts";
import type { ErrorType } from "../models/error-response.ts";
import { type ErrorForm, inOneText } from "./error-form.ts";

/** What their clients compare, where OpenAI has a word of its own. */
const CODES: Partial<Record<ErrorType, string>> = {
  unauthorized: "invalid_api_key",
  agent_not_found: "model_not_found",
  rate_limited: "rate_limit_exceeded",
};

/** An error as the clients of OpenAI read it. */
export const OPENAI_ERRORS: ErrorForm = {
  below: "/v1/",
  schema: v.object({
    error: v.object({
      message: v.string(),
      type: v.string(),
      code: v.nullable(v.string()),
      param: v.nullable(v.string()),
    }),
  }),
  // A request that does not fit is 400 there; an answer that failed keeps its own.
  status: ({ type, status }) => (status === 422 && type !== "internal_error" ? 400 : status),
  toBody: (error) => ({
    error: {
      message: inOneText(error),
      type: typeOf(error),
      code: CODES[error.type] ?? error.type,
      param: null,
    },
  }),
};

function typeOf({ type, status }: ServiceError): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 || type === "internal_error" ? "server_error" : "invalid_request_error";
}
