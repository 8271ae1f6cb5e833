import { createHash } from "node:crypto";

/** Name of the event that brings a message into a thread. */
export function messageEvent(jobId: string): string {
  return `chat.${jobId.length <= 90 ? jobId : createHash("sha256").update(jobId).digest("hex")}`;
}
