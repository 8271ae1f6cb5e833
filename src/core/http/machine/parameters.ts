import * as v from "valibot";
import { toAgentResponse } from "../../agents/agent-response.ts";
import { describeProblem } from "../../base/describe-issue.ts";
import { isServiceError } from "../../base/errors.ts";
import { AgentResponseSchema } from "../../models/agent-response.ts";
import { JsonMapSchema, optional } from "../../models/scalars.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";
import { AgentPathSchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Agents" });
const Problems = v.record(v.string(), v.string());
const verdict = { valid: v.boolean(), message: v.string(), errors: v.array(v.string()) };

/** An agent's parameters, and validation before a job is started. */
export function parameterRoutes(parts: MachineParts): RouteDefinition[] {
  const { prefix, agents, parameters, envelopes, settings } = parts;
  return [
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/parameters`,
      needs: "manage",
      summary: "Store an agent's parameters",
      description: "They are stored encrypted, as received. Omitted ones stay unchanged.",
      params: AgentPathSchema,
      body: v.object({
        onboarding_status: optional(v.string()),
        parameters_encrypted: optional(v.string()),
      }),
      responses: { 200: { description: "The agent", schema: AgentResponseSchema } },
      handler: async ({ params, body, event, caller }) => {
        const agent = agents.get(params.slug);
        const sent = body.parameters_encrypted;
        await envelopes.pass(event, sent, () => sent && parameters.decrypt(sent, agent));
        await settings.change(agent.slug, body, caller);
        // Returned only to the sender.
        return { ...(await toAgentResponse(agent, parts)), server_encrypted_parameters: sent ?? null };
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/validate-agent-parameters`,
      needs: "start",
      narrows: true,
      summary: "Check encrypted parameters",
      description:
        "Decrypts them and checks them against the parameters of the agent. Nothing is stored, and no value is returned.",
      params: AgentPathSchema,
      body: v.object({ encrypted_agent_parameters: optional(v.string()) }),
      responses: {
        200: {
          description: "The result of the check",
          schema: v.object({ ...verdict, invalid_parameters: Problems }),
        },
      },
      handler: async ({ params, body, event, caller }) => {
        const agent = parts.seen(caller).agents.get(params.slug);
        const sent = body.encrypted_agent_parameters;
        try {
          return await envelopes.pass(event, sent, () => parameters.validate(agent, sent));
        } catch (error) {
          if (!isServiceError(error) || error.type !== "invalid_parameters") throw error;
          return {
            valid: false,
            message: error.message,
            errors: [error.detail ?? error.message],
            invalid_parameters: { encrypted_agent_parameters: "cannot be decrypted" },
          };
        }
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/validate-method-fields`,
      needs: "start",
      narrows: true,
      summary: "Check a method's fields",
      description: "Checks values against the fields of a method, and starts nothing.",
      params: AgentPathSchema,
      body: v.object({ method_name: v.optional(v.string(), "job_start"), job_fields: JsonMapSchema }),
      responses: {
        200: {
          description: "The result of the check",
          schema: v.object({ ...verdict, invalid_fields: Problems }),
        },
      },
      handler: async ({ params, body, caller }) => {
        const { agents, runner } = parts.seen(caller);
        const { slug } = agents.get(params.slug);
        const problems = await runner.checkFields(slug, body.method_name, body.job_fields);
        const errors = Object.entries(problems).map(([field, problem]) => describeProblem(field, problem));
        const valid = errors.length === 0;
        return {
          valid,
          message: valid ? "Method fields are valid" : "Method fields are invalid",
          errors,
          invalid_fields: problems,
        };
      },
    }),
  ];
}
