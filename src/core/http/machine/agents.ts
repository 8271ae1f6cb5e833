import * as v from "valibot";
import { toAgentResponse } from "../../agents/agent-response.ts";
import { AgentJobContextBaseSchema, AgentMethodParamsSchema } from "../../models/agent-method.ts";
import { AgentResponseSchema } from "../../models/agent-response.ts";
import { JobResponseSchema } from "../../models/job-response.ts";
import { JsonMapSchema } from "../../models/scalars.ts";
import { invalid } from "../check.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";
import { AgentPathSchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Agents" });

/** Agents, and the methods that are called outside a run. */
export function agentRoutes(parts: MachineParts): RouteDefinition[] {
  const { prefix, agents, runner, seen } = parts;
  return [
    keyRoute({
      method: "GET",
      path: `${prefix}/agents`,
      needs: "view",
      narrows: true,
      summary: "List the agents",
      description:
        "The agents that the caller may see, with their methods, the fields of these and their parameters.",
      responses: { 200: { description: "All agents", schema: v.array(AgentResponseSchema) } },
      handler: ({ caller }) =>
        Promise.all(
          seen(caller)
            .agents.list()
            .map((agent) => toAgentResponse(agent, parts)),
        ),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/agents/{slug}`,
      needs: "view",
      narrows: true,
      summary: "Show an agent",
      description: "Its methods, the fields of these and its parameters.",
      params: AgentPathSchema,
      responses: { 200: { description: "The agent", schema: AgentResponseSchema } },
      handler: ({ params, caller }) => toAgentResponse(seen(caller).agents.get(params.slug), parts),
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/status`,
      needs: "view",
      narrows: true,
      summary: "Ask an agent about the progress of a job",
      description: "Calls the agent's `job_status`; `params.job_id` names the job.",
      params: AgentPathSchema,
      body: AgentMethodParamsSchema,
      responses: { 200: { description: "The agent's response", schema: JobResponseSchema } },
      handler: ({ params, body, caller }) =>
        seen(caller).runner.call(seen(caller).agents.get(params.slug).slug, {
          method: "job_status",
          jobId: jobIdIn(body.params),
          params: body.params,
        }),
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/chat`,
      needs: "start",
      summary: "Talk to an agent",
      description: "Returns the result of the agent's `chat` method.",
      params: AgentPathSchema,
      body: AgentMethodParamsSchema,
      responses: { 200: { description: "The method's result", schema: v.unknown() } },
      handler: async ({ params, body }) =>
        (await runner.call(agents.get(params.slug).slug, { method: "chat", params: body.params })) ?? null,
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/custom/{name}`,
      needs: "operate",
      summary: "Call one of an agent's own methods",
      description:
        "The methods below `custom` of the agent's definition. Nothing of the call is recorded: sent again, it runs the method again.",
      params: v.object({ slug: v.string(), name: v.string() }),
      body: v.object({
        ...AgentJobContextBaseSchema.entries,
        params: v.optional(JsonMapSchema, {}),
        /** As in the path. */
        method_name: v.optional(v.string()),
      }),
      responses: { 200: { description: "The method's result", schema: JobResponseSchema } },
      handler: ({ params, body: { method_name = params.name, ...body } }) => {
        if (method_name !== params.name)
          throw invalid("body", `method_name must be ${params.name}, as in the path`);
        return runner.call(agents.get(params.slug).slug, {
          method: "custom",
          name: params.name,
          jobId: body.job_context.job_id,
          params: body.params,
          fields: body.job_fields,
        });
      },
    }),
  ];
}

function jobIdIn(params: Readonly<Record<string, unknown>>): string | undefined {
  return typeof params.job_id === "string" ? params.job_id : undefined;
}
