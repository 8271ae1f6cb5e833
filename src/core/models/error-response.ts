import * as v from "valibot";
import { optional, TimestampSchema } from "./scalars.ts";

export const ErrorTypeSchema = v.picklist([
  "job_not_found",
  "job_already_exists",
  "agent_not_found",
  "invalid_request",
  "internal_error",
  "invalid_parameters",
  "case_not_found",
  "not_found",
  "unauthorized",
  "forbidden",
  "invalid_transition",
  "payload_too_large",
  "unsupported_media_type",
  "rate_limited",
  "storage_error",
  "unavailable",
]);
export type ErrorType = v.InferOutput<typeof ErrorTypeSchema>;

/** Body of every failure. */
export const ErrorResponseSchema = v.object({
  error: v.string(),
  error_type: ErrorTypeSchema,
  detail: optional(v.string()),
  timestamp: TimestampSchema,
  status_code: v.number(),
});
export type ErrorResponse = v.InferOutput<typeof ErrorResponseSchema>;
