import type { Answer } from "../http-server.ts";

/** A refusal in Google's shape. */
export function refuse(code: number, status: string, message: string, details?: unknown[]): Answer {
  return { status: code, body: { error: { code, message, status, ...(details ? { details } : {}) } } };
}

export const notFound = (): Answer => refuse(404, "NOT_FOUND", "Requested entity was not found.");
export const exists = (): Answer => refuse(409, "ALREADY_EXISTS", "Resource already exists.");
export const invalid = (message: string): Answer => refuse(400, "INVALID_ARGUMENT", message);
export const aborted = (): Answer => refuse(409, "ABORTED", "unable to queue the operation");

export function disabled(service: string, project: string): Answer {
  return refuse(
    403,
    "PERMISSION_DENIED",
    `${service} has not been used in project ${project} before or it is disabled. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.`,
    [
      {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        reason: "SERVICE_DISABLED",
        domain: "googleapis.com",
        metadata: { consumer: `projects/${project}`, service },
      },
    ],
  );
}
