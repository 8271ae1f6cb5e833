import * as v from "valibot";
import type { ServiceError } from "../../core/base/errors.ts";
import { type ErrorForm, inOneText } from "../../core/http/error-form.ts";

const INFO = "type.googleapis.com/google.rpc.ErrorInfo";
/** Names of `google.rpc.Code` by status. */
const NAMES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  405: "UNIMPLEMENTED",
  409: "ABORTED",
  413: "INVALID_ARGUMENT",
  415: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

/** What errors of the service say to programs: the protocol's own words where it has one. */
export function errorInfo({ type }: ServiceError): Readonly<Record<string, unknown>> {
  if (type === "unsupported_media_type")
    return { "@type": INFO, reason: "CONTENT_TYPE_NOT_SUPPORTED", domain: "a2a-protocol.org" };
  return { "@type": INFO, reason: type.toUpperCase(), domain: "agent-control-service" };
}

/** Errors of the REST binding: a `google.rpc.Status` as JSON. */
export const REST_ERRORS: ErrorForm = {
  schema: v.object({
    error: v.object({
      code: v.number(),
      status: v.string(),
      message: v.string(),
      details: v.array(
        v.object({
          "@type": v.string(),
          reason: v.string(),
          domain: v.string(),
          metadata: v.optional(v.record(v.string(), v.unknown())),
        }),
      ),
    }),
  }),
  status: statusOf,
  toBody: (error) => ({
    error: {
      code: statusOf(error),
      status: NAMES[statusOf(error)] ?? "INTERNAL",
      message: inOneText(error),
      details: [errorInfo(error)],
    },
  }),
};

function statusOf({ status }: ServiceError): number {
  return status === 422 ? 400 : status;
}
