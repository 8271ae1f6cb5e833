import type { Role, Sight } from "../models/access.ts";
import type { AuditEntry } from "../models/audit-entry.ts";

/**
 * How a caller is identified: the API key, a token of one job, a link that answers one question, a session of the admin
 * interface, the service itself, or nothing.
 */
export type CallerKind = AuditEntry["who"]["kind"];

/** The caller of a change. */
export interface Caller {
  readonly kind: CallerKind;
  /** Beginning of the session's id. */
  readonly session?: string;
  /**
   * The name that the identity provider, or the maker of a token or key, vouches for; the admin interface vouches for
   * none.
   */
  readonly name?: string;
  /** The name that a person typed when signing in. It is not verified. */
  readonly says?: string;
  /** The identity provider that vouches for the person, by its issuer; absent where nobody does. */
  readonly proven?: string;
  /** What questions can be assigned to, for a person whom a provider vouches for: its names and groups. */
  readonly names?: readonly string[];
  /** What it may do; absent for a token of a job, a link, and who sends no key. */
  readonly role?: Role;
  /** What it may see, if not everything. */
  readonly sight?: Sight;
  /** The named key or the person, by the id of the access. */
  readonly access?: string;
  /** Client address; absent for the service itself. */
  readonly address?: string;
  /** The only job that a token opens. */
  readonly job?: string;
  /** Who made the link with which a person answers, by the id of the access: could have used it, too. */
  readonly voucher?: string;
  /** What a token was made for. */
  readonly scopes?: readonly string[];
  /** Aborts when the right to be here ends before its time: for streams. */
  readonly over?: AbortSignal;
  /** When the right to be here ends. */
  readonly until?: Date;
}

/** The caller of a change: with all details, or only a display name. */
export type Actor = string | Caller;

/** A request without key and session. */
export const ANYONE: Caller = { kind: "nobody" };

/** The service itself. */
export const SYSTEM: Caller = { kind: "system" };

/** How somebody is named in a history. A name that was typed is marked as such. */
export function nameOf(actor: Actor): string {
  if (typeof actor === "string") return actor;
  if (actor.kind === "key") return actor.name === undefined ? "api-key" : `key ${actor.name}`;
  if (actor.kind === "nobody") return "anyone";
  if (actor.kind === "system") return actor.says ?? "the service";
  if (actor.name !== undefined) return actor.name;
  if (actor.kind === "token") return "token";
  return nameOfSession(actor.session ?? "", actor.says);
}

/** `session tcfG7O, says "Alice"`: a name that was typed proves nothing. */
function nameOfSession(session: string, says = ""): string {
  return says === "" ? `session ${session}` : `session ${session}, says ${JSON.stringify(says)}`;
}
