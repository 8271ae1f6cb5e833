import * as v from "valibot";
import { OptionsError } from "../base/check-options.ts";
import { unknownMembers } from "../base/unknown-members.ts";
import { NewAccessSchema, type Role, RoleSchema } from "../models/access.ts";

/** What a person may do, with limits. */
export interface PersonAccess {
  readonly role: Role;
  /** Slugs: only these agents and their jobs. @default all */
  readonly agents?: readonly string[];
  /** Only jobs of this workspace. @default all */
  readonly workspace?: string;
}

/**
 * Who has which role: by a verified e-mail address (`ada@example.com`), by subject (`sub:248289761001`), by group
 * (`group:finance`), or everybody else whom the provider lets in (`*`). Who is in no line does not get in.
 */
export type RoleTable = Readonly<Record<string, Role | PersonAccess>>;

/** Whom an identity provider has vouched for. */
export interface Proven {
  readonly issuer: string;
  /** The person at this issuer: it never changes, and is never given to somebody else. */
  readonly subject: string;
  /** Verified, in lower case. */
  readonly email?: string;
  readonly groups: readonly string[];
}

const { role: _role, name: _name, ...LIMITS } = NewAccessSchema.entries;
const AccessSchema = v.union([RoleSchema, v.strictObject({ role: RoleSchema, ...LIMITS })]);

/** Checks a table of roles; throws `OptionsError` that names the line. */
export function checkRoles(table: RoleTable, option: string): RoleTable {
  const lines = typeof table === "object" && table !== null ? Object.entries(table) : [];
  if (lines.length === 0) {
    throw new OptionsError(
      `Option ${option} must name who has which role, such as { "group:finance": "answerer", "*": "viewer" }: nobody else gets in`,
    );
  }
  const checked = lines.map(([who, given]) => {
    if (!/^(?:\*|group:.+|sub:.+|[^\s@:]+@[^\s@]+)$/.test(who)) {
      throw new OptionsError(
        `Option ${option}: "${who}" is nobody: use an e-mail address, "group:" with a name, "sub:" with a subject, or "*" for everybody`,
      );
    }
    const [unknown] = typeof given === "object" ? unknownMembers(AccessSchema.options[1], given) : [];
    if (unknown) throw new OptionsError(`Option ${option}: "${who}": ${unknown.path} ${unknown.problem}`);
    const result = v.safeParse(AccessSchema, given);
    if (!result.success)
      throw new OptionsError(
        `Option ${option}: "${who}" must have one of the roles ${RoleSchema.options.join(", ")}, or { role, agents, workspace }`,
      );
    return [who.includes("@") && !/^(?:group|sub):/.test(who) ? who.toLowerCase() : who, given] as const;
  });
  return Object.fromEntries(checked);
}

/** What a person may do: by the line about the person, else by the first about one of its groups, else as everybody. */
export function accessOf(table: RoleTable, { subject, email, groups }: Proven): PersonAccess | undefined {
  const own = lineOf(table, `sub:${subject}`) ?? (email === undefined ? undefined : lineOf(table, email));
  const found = own ?? firstOf(table, groups) ?? lineOf(table, "*");
  return typeof found === "string" ? { role: found } : found;
}

function lineOf(table: RoleTable, who: string): Role | PersonAccess | undefined {
  return Object.hasOwn(table, who) ? table[who] : undefined;
}

function firstOf(table: RoleTable, groups: readonly string[]): Role | PersonAccess | undefined {
  const names = new Set(groups.map((group) => `group:${group}`));
  return Object.entries(table).find(([who]) => names.has(who))?.[1];
}

/** How a person is named in histories: never by a name that people choose themselves. */
export function nameOfPerson({ subject, email }: Proven): string {
  return email ?? subject;
}

/** What a question can be assigned to, for a person. */
export function namesOf({ subject, email, groups }: Proven): readonly string[] {
  return [
    ...(email === undefined ? [] : [email]),
    `sub:${subject}`,
    ...groups.map((group) => `group:${group}`),
  ];
}
