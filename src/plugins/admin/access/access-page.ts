import type { Access, Person } from "../../../core/models/access.ts";
import { ROLES } from "../../../core/models/access.ts";
import type { AdminParts } from "../parts.ts";
import { hourPiece, pathTo, timePiece } from "../views/pieces.ts";

/** What the form for a new key had in it. */
export interface TypedKey {
  readonly name: string;
  readonly role: string;
  readonly agents: readonly string[];
  readonly workspace: string;
  readonly expires: string;
}

export interface AccessView {
  /** A key that was just made: it is shown this once. */
  readonly made?: { readonly key: string; readonly access: Access; readonly isRotated: boolean };
  readonly typed?: TypedKey;
  readonly problem?: string;
}

/** What each role is for, beside its name. */
const ABOUT: Readonly<Record<(typeof ROLES)[number], string>> = {
  viewer: "sees everything, changes nothing",
  answerer: "answers the questions that are assigned to it",
  starter: "starts jobs, and sees its own",
  operator: "starts, answers, stops, retries",
  admin: "everything, keys and secrets too",
};
const NOTHING: TypedKey = { name: "", role: "starter", agents: [], workspace: "", expires: "90d" };

/** The named keys, the form for another one, and the people who have come. */
export async function accessState(
  { access, people, agents, clock, service }: AdminParts,
  { made, typed = NOTHING, problem = "" }: AccessView = {},
) {
  const now = clock();
  const [keys, persons] = await Promise.all([access.list(), people.list()]);
  return {
    made: made && {
      key: made.key,
      name: made.access.name,
      note: made.isRotated
        ? "The former key works for another day."
        : `It has the role ${made.access.role}${limitsOf(made.access)}.`,
    },
    problem,
    form: {
      name: typed.name,
      workspace: typed.workspace,
      expires: typed.expires,
      roles: ROLES.map((role) => ({
        value: role,
        label: `${role}: ${ABOUT[role]}`,
        selected: role === typed.role,
      })),
      agents: agents.list().map(({ slug, definition }) => ({
        slug,
        name: definition.name,
        picked: typed.agents.includes(slug),
      })),
    },
    keys: keys.map((key) => toKeyRow(key, now)),
    signsIn: service.access.signIn !== undefined,
    people: persons.map((person) => toPersonRow(person, now)),
  };
}

function limitsOf({ agents, workspace }: Pick<Access, "agents" | "workspace">): string {
  const parts = [
    ...(agents ? [`only ${agents.join(", ")}`] : []),
    ...(workspace === null ? [] : [`workspace ${workspace}`]),
  ];
  return parts.length > 0 ? `, ${parts.join(", ")}` : "";
}

function toKeyRow(key: Access, now: Date) {
  const { id, name, role, expires_at, used_at, created_by, previous_until, source } = key;
  const isExpired = expires_at !== null && Date.parse(expires_at) <= now.getTime();
  const isBoth = previous_until !== null && Date.parse(previous_until) > now.getTime();
  return {
    ...{ name, role, isExpired },
    agents: key.agents?.join(", ") ?? "all",
    workspace: key.workspace ?? "all",
    expires: expires_at === null ? "never" : timePiece(expires_at, now).toString(),
    used: used_at === null ? "" : hourPiece(used_at, now).toString(),
    by: source === "declared" ? "in the code" : (created_by ?? ""),
    note: isBoth ? `Rotated: the former key expires ${timePiece(previous_until, now)}.` : "",
    isStored: source === "stored",
    rotateHref: pathTo("access", id, "rotate"),
    removeHref: pathTo("access", id, "remove"),
  };
}

function toPersonRow({ id, name, issuer, role, groups, seen_at, removed_at }: Person, now: Date) {
  return {
    ...{ name, issuer, role },
    groups: groups.join(", "),
    seen: hourPiece(seen_at, now).toString(),
    isRemoved: removed_at !== null,
    steerHref: pathTo("access/people", id, removed_at === null ? "remove" : "restore"),
  };
}
