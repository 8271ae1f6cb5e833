import * as v from "valibot";
import { nameOf } from "../../audit/caller.ts";
import { isDuration, toMilliseconds } from "../../base/duration.ts";
import {
  AccessSchema,
  grants,
  NewAccessSchema,
  PersonSchema,
  RIGHTS,
  RoleSchema,
} from "../../models/access.ts";
import { TimestampSchema } from "../../models/scalars.ts";
import { invalid } from "../check.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const accessRoute = routesOf({ auth: "session", tag: "Access", needs: "manage" });
const PathSchema = v.object({ id: v.string() });

const AddSchema = v.object({
  ...NewAccessSchema.entries,
  /** How long it works, such as `90d`; indefinitely if omitted. */
  expires_in: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => isDuration(text), 'must be a duration such as "90d"'),
    ),
  ),
});

const MadeSchema = v.object({
  /** The key: it is shown this once and stored nowhere. */
  key: v.string(),
  access: AccessSchema,
});

const WhoSchema = v.object({
  /** As histories and the audit log name the caller. */
  name: v.string(),
  kind: v.picklist(["key", "session"]),
  role: RoleSchema,
  rights: v.array(v.picklist(RIGHTS)),
  /** Limits of what the caller sees; null where there are none. */
  agents: v.nullable(v.array(v.string())),
  workspace: v.nullable(v.string()),
  expires_at: v.nullable(TimestampSchema),
  /** The identity provider that vouches for the person; null for a key, and for who signed in with one. */
  proven_by: v.nullable(v.string()),
  /** What questions can be assigned to, so that they are for the caller. */
  names: v.array(v.string()),
});

/** The named keys of the service, and what a caller may do. */
export function accessRoutes({ prefix, access, people, clock }: MachineParts): RouteDefinition[] {
  return [
    accessRoute({
      method: "GET",
      path: `${prefix}/whoami`,
      needs: "nothing",
      narrows: true,
      summary: "Who the caller is, and what it may do",
      description: "The name, the role and the rights that come with the key or the session of the request.",
      responses: { 200: { description: "The caller", schema: WhoSchema } },
      handler: async ({ caller }) => {
        const { role = "viewer", sight } = caller;
        const own =
          caller.access === undefined
            ? undefined
            : (await access.list()).find(({ id }) => id === caller.access);
        return {
          name: nameOf(caller),
          kind: caller.kind,
          role,
          rights: RIGHTS.filter((right) => grants(role, right)),
          agents: sight?.agents ?? null,
          workspace: sight?.workspace ?? null,
          expires_at: own?.expires_at ?? null,
          proven_by: caller.proven ?? null,
          names: [...(caller.names ?? (caller.name === undefined ? [] : [caller.name]))],
        };
      },
    }),
    accessRoute({
      method: "GET",
      path: `${prefix}/access`,
      summary: "List the named keys",
      description: "Without the keys themselves: nothing shows a key again.",
      responses: { 200: { description: "The keys", schema: v.array(AccessSchema) } },
      handler: () => access.list(),
    }),
    accessRoute({
      method: "GET",
      path: `${prefix}/access/people`,
      summary: "List the people who have come so far",
      description:
        "Those whom an identity provider vouches for, with the role of their last visit. Who may come is in the option `access.signIn`.",
      responses: { 200: { description: "The people", schema: v.array(PersonSchema) } },
      handler: () => people.list(),
    }),
    accessRoute({
      method: "DELETE",
      path: `${prefix}/access/people/{id}`,
      summary: "Refuse a person",
      description:
        "On every instance within seconds, whatever the identity provider says; sessions and streams end.",
      params: PathSchema,
      responses: { 200: { description: "The person", schema: PersonSchema } },
      handler: ({ params, caller }) => people.remove(params.id, caller),
    }),
    accessRoute({
      method: "POST",
      path: `${prefix}/access/people/{id}/restore`,
      summary: "Let a person in again who was removed",
      description: "The person may sign in again, with the role that the provider gives.",
      params: PathSchema,
      responses: { 200: { description: "The person", schema: PersonSchema } },
      handler: ({ params, caller }) => people.restore(params.id, caller),
    }),
    accessRoute({
      method: "POST",
      path: `${prefix}/access`,
      summary: "Make a named key",
      description: "The response has the key, once: only its SHA-256 is stored.",
      body: AddSchema,
      status: 201,
      responses: { 201: { description: "The key", schema: MadeSchema } },
      stored: true,
      handler: ({ body: { expires_in, ...asked }, caller }) => {
        const time = expires_in === undefined ? undefined : toMilliseconds(expires_in as `${number}d`);
        if (time === 0) throw invalid("body", "expires_in must be longer than 0");
        const expires_at = time === undefined ? null : new Date(clock().getTime() + time).toISOString();
        return access.add({ ...asked, expires_at }, caller);
      },
    }),
    accessRoute({
      method: "POST",
      path: `${prefix}/access/{id}/rotate`,
      summary: "Replace a named key",
      description:
        "The response has the new key, once; the former one works for another day. `id` may be the name.",
      params: PathSchema,
      responses: { 200: { description: "The new key", schema: MadeSchema } },
      stored: true,
      handler: ({ params, caller }) => access.rotate(params.id, caller),
    }),
    accessRoute({
      method: "DELETE",
      path: `${prefix}/access/{id}`,
      summary: "Remove a named key",
      description: "On every instance within seconds; its streams end. `id` may be the name.",
      params: PathSchema,
      responses: { 200: { description: "What it was", schema: AccessSchema } },
      handler: ({ params, caller }) => access.remove(params.id, caller),
    }),
  ];
}
