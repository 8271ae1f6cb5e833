import * as v from "valibot";
import { TimestampSchema } from "../../models/scalars.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const encryptionRoute = routesOf({ auth: "key", tag: "Encryption", needs: "start", narrows: true });
const jobsRoute = routesOf({ auth: "key", tag: "Jobs", needs: "operate" });

/** Seconds: who drains a service renews it, and if that process dies, jobs must not wait for long. */
const LONGEST_DRAIN = 300;

const EncryptQuerySchema = v.pipe(
  v.object({ version: v.optional(v.picklist(["1", "2"]), "2"), agent: v.optional(v.string()) }),
  v.check(({ version, agent }) => version === "2" || agent === undefined, "agent requires version 2"),
);

/** The service's public key, encryption for clients that have none of their own, drain, and the end of a pause. */
export function utilRoutes({ prefix, seen, parameters, runner }: MachineParts): RouteDefinition[] {
  return [
    jobsRoute({
      method: "POST",
      path: `${prefix}/utils/resume`,
      summary: "End the pause of a service that was started paused",
      description: "Accepted jobs run, and unfinished ones resume.",
      responses: {
        200: {
          description: "How many jobs wait",
          schema: v.object({ paused: v.boolean(), queued: v.number() }),
        },
      },
      handler: () => {
        const { queued } = runner.load();
        runner.unpause();
        return { paused: runner.isPaused, queued };
      },
    }),
    jobsRoute({
      method: "POST",
      path: `${prefix}/utils/drain`,
      summary: "Start no new jobs for some seconds, before the service is replaced",
      description:
        "New jobs are accepted and wait in line; those that have started continue. It is valid for all instances of a store: others follow within two seconds. It ends by itself unless the call is repeated; `seconds: 0` ends it.",
      body: v.object({
        seconds: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LONGEST_DRAIN)),
      }),
      responses: {
        200: {
          description: "Until when, and how many jobs run",
          schema: v.object({ until: v.nullable(TimestampSchema), running: v.number() }),
        },
      },
      handler: ({ body: { seconds }, caller }) => runner.drain(seconds * 1000, caller),
    }),
    encryptionRoute({
      method: "GET",
      path: `${prefix}/utils/public_key`,
      summary: "The public key for agent parameters",
      description: "An RSA key in PEM, with which clients encrypt parameters before they send them.",
      responses: { 200: { description: "PEM (SPKI)", schema: v.string() } },
      handler: () => parameters.publicKeyPem(),
    }),
    encryptionRoute({
      method: "POST",
      path: `${prefix}/utils/encrypt`,
      summary: "Encrypt agent parameters",
      description:
        "Takes the text to encrypt: JSON, a list of `{name, value}` or a map of name to value. The envelope is authenticated; with `agent`, no other agent can open it. `version=1` gives the older layout without authentication, for clients that need it.",
      query: EncryptQuerySchema,
      body: v.string(),
      responses: { 200: { description: "For `encrypted_agent_parameters`", schema: v.string() } },
      handler: ({ query, body, caller }) => {
        const agent = query.agent === undefined ? undefined : seen(caller).agents.get(query.agent).slug;
        return parameters.encrypt(body, { version: query.version === "1" ? 1 : 2, agent });
      },
    }),
  ];
}
