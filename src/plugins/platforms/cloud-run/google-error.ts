import { readRetryAfter } from "../../../core/base/retry-after.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import type { RestRefusal } from "../cloud/rest.ts";

interface GoogleErrorBody {
  readonly error?: {
    readonly code?: number;
    readonly message?: string;
    readonly status?: string;
    readonly details?: readonly { readonly "@type"?: string; readonly reason?: string }[];
    /** Cloud Storage's older shape. */
    readonly errors?: readonly { readonly reason?: string }[];
  };
}

/** An error response of a Google API. */
export function toGoogleError(refusal: RestRefusal, now: Date): CloudError {
  const { error } = (
    typeof refusal.body === "object" && refusal.body !== null ? refusal.body : {}
  ) as GoogleErrorBody;
  const reason =
    error?.details?.find((detail) => detail["@type"]?.endsWith("google.rpc.ErrorInfo"))?.reason ??
    error?.errors?.[0]?.reason;
  return new CloudError(error?.message ?? "the response gave no reason", {
    status: refusal.status,
    code: error?.status ?? reason ?? "UNKNOWN",
    reason,
    retryAfter: readRetryAfter(refusal.headers.get("retry-after"), now),
  });
}

export const isNotFound = (error: unknown): boolean => error instanceof CloudError && error.status === 404;
export const isExisting = (error: unknown): boolean => error instanceof CloudError && error.status === 409;
export const isDisabledApi = (error: CloudError): boolean => error.reason === "SERVICE_DISABLED";
