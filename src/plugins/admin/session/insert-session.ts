import type { AuditUnit } from "../../../core/audit/audit-log.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import { toCookie } from "../cookies.ts";
import type { AdminParts } from "../parts.ts";
import { type NewSession, SESSION_COOKIE, type SessionOwner } from "../sessions.ts";

/**
 * Opens a session together with the line about it. Nothing is stored where `allowed` says no, and then there is no
 * session.
 */
export async function openSession(
  parts: AdminParts,
  event: HttpEvent,
  owner: SessionOwner,
  allowed: (unit: AuditUnit) => Promise<boolean> = async () => true,
): Promise<NewSession | undefined> {
  const made = parts.sessions.make(event, owner);
  const { row, signedIn } = made;
  const line = {
    by: { kind: "session", ...signedIn, address: parts.clients.address(event) },
    action: "session.begin",
    target: { kind: "session", id: signedIn.session },
    after: { with: row.by, ...(row.program !== undefined && { program: row.program }) },
  } as const;
  const isBegun = await parts.audit.change(
    async (unit) => {
      if (!(await allowed(unit))) return false;
      await unit.tx.insert("AdminSession", row);
      return true;
    },
    (isBegun) => (isBegun ? line : undefined),
  );
  return isBegun ? made : undefined;
}

/** The cookie of a session of a browser. */
export function cookieOf(parts: AdminParts, event: HttpEvent, { value, maxAge }: NewSession): string {
  return toCookie(event, parts, { name: SESSION_COOKIE, value, maxAge });
}
