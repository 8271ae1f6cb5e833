import type { Vouched } from "../../../core/access/identity-provider.ts";
import type { AuditUnit } from "../../../core/audit/audit-log.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import { toCookie } from "../cookies.ts";
import type { AdminParts } from "../parts.ts";
import { SESSION_COOKIE } from "../sessions.ts";

/** Who signs in, and with what. */
export interface Begun {
  readonly name?: string;
  readonly key?: string;
  /** The named key, by its id. */
  readonly access?: string;
  /** Whom the identity provider vouches for. */
  readonly vouched?: Vouched;
}

/**
 * Opens a session together with the line about it; gives its cookie. Nothing is stored where `allowed` says no, and then
 * there is no cookie.
 */
export async function insertSession(parts: AdminParts, event: HttpEvent, person: Begun): Promise<string>;
export async function insertSession(
  parts: AdminParts,
  event: HttpEvent,
  person: Begun,
  allowed: (unit: AuditUnit) => Promise<boolean>,
): Promise<string | undefined>;
export async function insertSession(
  parts: AdminParts,
  event: HttpEvent,
  person: Begun,
  allowed: (unit: AuditUnit) => Promise<boolean> = async () => true,
): Promise<string | undefined> {
  const { row, value, maxAge, signedIn } = parts.sessions.make(event, person);
  const line = {
    by: { kind: "session", ...signedIn, address: parts.clients.address(event) },
    action: "session.begin",
    target: { kind: "session", id: signedIn.session },
    after: { with: row.by },
  } as const;
  const isBegun = await parts.audit.change(
    async (unit) => {
      if (!(await allowed(unit))) return false;
      await unit.tx.insert("AdminSession", row);
      return true;
    },
    (isBegun) => (isBegun ? line : undefined),
  );
  return isBegun ? toCookie(event, parts, { name: SESSION_COOKIE, value, maxAge }) : undefined;
}
