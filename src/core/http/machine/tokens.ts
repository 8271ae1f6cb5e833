import * as v from "valibot";
import type { Need } from "../../models/access.ts";
import { EntityIdSchema, TimestampSchema } from "../../models/scalars.ts";
import { TOKEN_SCOPES, type TokenScope } from "../job-tokens.ts";
import { demand } from "../rights.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import { JobPathSchema } from "./schemas.ts";

const ScopesSchema = v.array(
  v.picklist(
    TOKEN_SCOPES,
    ({ received }) =>
      `must be one of ${TOKEN_SCOPES.join(", ")}${/^"(?:read|stream)"$/.test(received) ? `: ${received} is "status" now, or "record" for all of the record` : ""}`,
  ),
);
const DAY = 24 * 3600;

const TokenRequestSchema = v.object({
  /** Seconds. */
  expires_in: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(DAY)), 900),
  scopes: v.optional(v.pipe(ScopesSchema, v.minLength(1)), ["status"]),
  name: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(100))),
});

const TokenSchema = v.object({
  token: v.string(),
  job_id: EntityIdSchema,
  scopes: ScopesSchema,
  expires_at: TimestampSchema,
});

const NEEDED: Readonly<Record<TokenScope, Need>> = {
  status: "view",
  record: "view",
  answer: "answer",
  message: "start",
  stop: "start",
};

/** Tokens with which browsers use one job. */
export function tokenRoutes(parts: MachineParts): RouteDefinition[] {
  return [makeRoute(parts), revokeRoute(parts)];
}

function makeRoute({ prefix, seen, tokens, audit, clock }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "POST",
    path: `${prefix}/jobs/{id}/tokens`,
    auth: "key",
    needs: "start",
    narrows: true,
    summary: "Make a token of a job for a browser",
    description:
      "The token is accepted as `Authorization: Bearer` by the routes of this job that its `scopes` name, and nowhere else, for `expires_in` seconds (86400 at most). `status` shows the state of the job: its status, its progress by the names of what it does, its questions, its result, and what steps emit. `record` shows its record as well: what it and its steps were given, and what these found; stack traces neither shows. `name` is its user: shown with answers and in the audit log. It is not stored. It ends before its time when the API key changes, or with the named key that made it.",
    tag: "Jobs",
    params: JobPathSchema,
    body: v.optional(TokenRequestSchema, {}),
    status: 201,
    responses: { 201: { description: "The token", schema: TokenSchema } },
    handler: async ({ params, body: { expires_in, scopes: given, name }, caller }) => {
      const { id, created_at: created } = await seen(caller).jobs.get(params.id);
      const scopes = TOKEN_SCOPES.filter((scope) => given.includes(scope));
      // Nobody gives away more than they may do.
      for (const scope of scopes) demand(caller, NEEDED[scope]);
      const exp = Math.floor(clock().getTime() / 1000) + expires_in;
      const expires_at = new Date(exp * 1000).toISOString();
      const after = { scopes, expires_at, ...(name !== undefined && { name }) };
      await audit.record({ by: caller, action: "job.token", target: { kind: "job", id }, after });
      const by = caller.access;
      const token = tokens.create({
        ...{ job: id, created, scopes, exp },
        ...(name !== undefined && { name }),
        ...(by !== undefined && { by }),
      });
      return { token, job_id: id, scopes, expires_at };
    },
  });
}

function revokeRoute({ prefix, seen, revoked }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "DELETE",
    path: `${prefix}/jobs/{id}/tokens`,
    auth: "session",
    needs: "start",
    narrows: true,
    summary: "Revoke the tokens of a job",
    description:
      "All that were made so far, or, with `name`, those that were made for it: on every instance within seconds. Their streams end.",
    tag: "Jobs",
    params: JobPathSchema,
    query: v.object({ name: v.optional(v.string()) }),
    responses: {
      200: {
        description: "They no longer count",
        schema: v.object({ job_id: EntityIdSchema, name: v.nullable(v.string()) }),
      },
    },
    handler: async ({ params, query: { name }, caller }) => {
      const { id } = await seen(caller).jobs.get(params.id);
      await revoked.revoke(id, name, caller);
      return { job_id: id, name: name ?? null };
    },
  });
}
