import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** What a caller may do: each route needs one of them. */
export const RIGHTS = ["view", "answer", "start", "operate", "manage"] as const;
export type Right = (typeof RIGHTS)[number];

/** What a key or a person is: a fixed set of rights. */
export const ROLES = ["viewer", "answerer", "starter", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];
export const RoleSchema = v.picklist(ROLES);

/** What a route needs: a right, or nothing beyond being allowed to ask. */
export type Need = Right | "nothing";

const GRANTED: Readonly<Record<Role, readonly Right[]>> = {
  viewer: ["view"],
  /** Sees the questions that are theirs. */
  answerer: ["view", "answer"],
  /** Sees what it has started, and answers what that asks of nobody in particular. */
  starter: ["view", "answer", "start"],
  operator: ["view", "answer", "start", "operate"],
  admin: RIGHTS,
};

/** Whether a role may do something. */
export function grants(role: Role, need: Need): boolean {
  return need === "nothing" || GRANTED[role].includes(need);
}

/** The roles that may do something, for people. */
export function rolesWith(need: Need): readonly Role[] {
  return ROLES.filter((role) => grants(role, need));
}

/** What a caller may see where that is not everything: all that is given must apply. */
export interface Sight {
  /** Only jobs of these agents. */
  readonly agents?: readonly string[];
  /** Only jobs of this workspace. */
  readonly workspace?: string;
  /** Only jobs that this key or person has started, and their children. */
  readonly startedBy?: string;
  /** Only this job: of a token. */
  readonly job?: string;
  /** When that job was created, ISO 8601: another one may have its id after it was removed. */
  readonly jobCreated?: string;
  /** Only open questions that are assigned to one of these names, and the cases and jobs that ask them. */
  readonly askedOf?: readonly string[];
}

const AccessNameSchema = v.pipe(
  v.string(),
  v.regex(
    /^[\p{L}\p{N}][\p{L}\p{N} ._@:/-]{0,99}$/u,
    "must be a name of at most 100 letters, digits, spaces and . _ - @ : /",
  ),
);

/** What a named key is made from. */
export const NewAccessSchema = v.object({
  /** Unique among the keys; shown in histories and in the audit log. */
  name: AccessNameSchema,
  role: RoleSchema,
  /** Slugs: only these agents and their jobs. */
  agents: v.optional(v.pipe(v.array(v.string()), v.minLength(1, "must name an agent, or be omitted"))),
  /** Only jobs of this workspace; those that it starts belong to it. */
  workspace: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(200))),
});
export type NewAccess = v.InferOutput<typeof NewAccessSchema>;

/** A named key as it is shown: never the key itself. */
export const AccessSchema = v.object({
  id: v.string(),
  name: v.string(),
  role: RoleSchema,
  agents: v.nullable(v.array(v.string())),
  workspace: v.nullable(v.string()),
  expires_at: v.nullable(TimestampSchema),
  /** Absent for one that the code declares. */
  created_at: v.nullable(TimestampSchema),
  created_by: v.nullable(v.string()),
  /** The hour in which it was last used; null where it never was, and for one that the code declares. */
  used_at: v.nullable(TimestampSchema),
  /** Until when the key before the last rotation works as well. */
  previous_until: v.nullable(TimestampSchema),
  source: v.picklist(["stored", "declared"]),
});
export type Access = v.InferOutput<typeof AccessSchema>;

/** A named key as stored. */
export interface StoredAccess {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly agents: readonly string[] | null;
  readonly workspace: string | null;
  readonly expires_at: string | null;
  readonly created_at: string;
  readonly created_by: string;
  readonly used_at: string | null;
  /** SHA-256 of the key, hex: the key has 256 random bits, so that nobody finds it by trying. */
  readonly hash: string;
  /** Keys that were rotated, with the time until which each works. */
  readonly previous: readonly { readonly hash: string; readonly until: string }[];
}

/** A person whom an identity provider vouches for, as shown. */
export const PersonSchema = v.object({
  id: v.string(),
  /** The verified e-mail address, or the subject where there is none. */
  name: v.string(),
  issuer: v.string(),
  subject: v.string(),
  groups: v.array(v.string()),
  /** What the person was when last seen. */
  role: RoleSchema,
  first_seen_at: TimestampSchema,
  /** The hour in which the person was last seen. */
  seen_at: TimestampSchema,
  /** Since when the person is refused; null for one who is not. */
  removed_at: v.nullable(TimestampSchema),
});
export type Person = v.InferOutput<typeof PersonSchema>;
