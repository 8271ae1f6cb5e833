import { createHash } from "node:crypto";
import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** Security-relevant actions, by target. */
export const AUDIT_ACTIONS = [
  "session.begin",
  "session.end",
  "session.link",
  "key.rejected",
  "key.locked_out",
  "key.changed",
  "access.add",
  "access.rotate",
  "access.remove",
  "access.restore",
  "rsa_key.changed",
  "rsa_key.renewed",
  "signing_key.changed",
  "job.status",
  "job.delete",
  "job.erase",
  "job.restore",
  "job.stop",
  "job.retry",
  "job.resume",
  "job.continue",
  "job.move",
  "job.fork",
  "job.export",
  "job.token",
  "job.token_revoke",
  "case.status",
  "case.delete",
  "case.erase",
  "case.restore",
  "case.answer",
  "case.assign",
  "case.link",
  "case.link_revoke",
  "bulk.run",
  "bulk.abort",
  "schedule.run",
  "schedule.pause",
  "schedule.resume",
  "events.retry",
  "events.drop",
  "agent.parameters",
  "agent.pause",
  "service.drain",
  "service.resume",
  "agent.resume",
  "failure.resolve",
  "failure.mute",
  "failure.reopen",
  "retention.remove",
  "audit.trim",
] as const;
export const AuditActionSchema = v.picklist(AUDIT_ACTIONS);
export type AuditAction = v.InferOutput<typeof AuditActionSchema>;

/** One line of the audit log. */
export const AuditEntrySchema = v.object({
  /** Counts from 1 without a gap. */
  n: v.number(),
  at: TimestampSchema,
  who: v.object({
    kind: v.picklist(["key", "token", "link", "session", "system", "nobody"]),
    /** Beginning of the session's id. */
    session: v.optional(v.string()),
    /** The named key or the person, by the id of the access. */
    access: v.optional(v.string()),
    /** A name that the identity provider vouches for. */
    name: v.optional(v.string()),
    /** A name that was typed; it is not verified. */
    says: v.optional(v.string()),
    /** The identity provider that vouches for the person, by its issuer. */
    proven: v.optional(v.string()),
  }),
  /** Client address; `null` if the service itself acted. */
  address: v.nullable(v.string()),
  action: AuditActionSchema,
  /** The target, such as `job` and its id. */
  target: v.nullable(v.object({ kind: v.string(), id: v.string() })),
  before: v.unknown(),
  after: v.unknown(),
  outcome: v.picklist(["done", "refused"]),
  /** Of this line and of the one before it. */
  hash: v.string(),
});
export type AuditEntry = v.InferOutput<typeof AuditEntrySchema>;

/** A value before or after a change, as text. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const parts = Object.entries(value).map(([name, one]) => {
    const text = typeof one === "object" && one !== null ? JSON.stringify(one) : String(one ?? "none");
    return Array.isArray(value) ? text : `${name.replaceAll("_", " ")} ${text}`;
  });
  return parts.join(", ");
}

/**
 * The hash of a line, over itself and the hash of the line before it: a changed or missing line is detected.
 */
export function hashOf(entry: Omit<AuditEntry, "hash">, before: string): string {
  const { n, at, who, address, action, target, outcome } = entry;
  const line = [n, at, who, address, action, target, entry.before ?? null, entry.after ?? null, outcome];
  return createHash("sha256")
    .update(`${before}\n${JSON.stringify(sorted(line))}`)
    .digest("base64url");
}

/** The value with sorted object keys, since a reader may have written them in a different order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]);
}

/** Names a line of a chain, and all before it. */
export function placeOf({ n, hash }: Pick<AuditEntry, "n" | "hash">): string {
  return `${n}:${hash}`;
}

/** Follows the chain of hashes over lines in their order; the result is the first problem. */
export class ChainCheck {
  #last: Pick<AuditEntry, "n" | "hash"> | undefined;
  #count = 0;

  /** `base` is the hash in front of the first line; without it the first line is trusted. */
  constructor(base?: { readonly n: number; readonly hash: string }) {
    this.#last = base;
  }

  get count(): number {
    return this.#count;
  }

  get last(): Pick<AuditEntry, "n" | "hash"> | undefined {
    return this.#last;
  }

  /** The problem of the next line; `undefined` if there is none. */
  add(entry: AuditEntry): string | undefined {
    const before = this.#last;
    this.#last = { n: entry.n, hash: entry.hash };
    this.#count++;
    if (before === undefined) return undefined;
    if (entry.n !== before.n + 1) return `line ${before.n} is followed by line ${entry.n}`;
    if (entry.hash !== hashOf(entry, before.hash)) return `line ${entry.n} is not as it was written`;
    return undefined;
  }
}
