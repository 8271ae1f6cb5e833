import type { Caller } from "../../../core/audit/caller.ts";
import type { AdminParts } from "../parts.ts";
import { shortId } from "../sessions.ts";

/** Ends a session and records who did; resolves with whether it was open. */
export async function endSession({ sessions, audit }: AdminParts, id: string, by: Caller): Promise<boolean> {
  const wasOpen = await sessions.end(id);
  if (wasOpen) await audit.note({ by, action: "session.end", target: { kind: "session", id: shortId(id) } });
  return wasOpen;
}
