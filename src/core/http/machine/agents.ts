import * as v from "valibot";
import { toAgentResponse } from "../../agents/agent-response.ts";
import { AgentJobContextBaseSchema, AgentMethodParamsSchema } from "../../models/agent-method.ts";
import { AgentResponseSchema } from "../../models/agent-response.ts";
import { JobResponseSchema } from "../../models/job-response.ts";
import { JsonMapSchema } from "../../models/scalars.ts";
import { invalid } from "../check.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import { AgentPathSchema } from "./schemas.ts";

const tag = "Agents";

/** Agents, and the methods that are called outside a run. */
export function agentRoutes(parts: MachineParts): RouteDefinition[] {
  const { prefix, agents, runner } = parts;
  return [
    defineRoute({
      method: "GET",
      path: `${prefix}/agents`,
      auth: "key",
      needs: "view",
      summary: "List the agents",
      tag,
      responses: { 200: { description: "All agents", schema: v.array(AgentResponseSchema) } },
      handler: () => Promise.all(agents.list().map((agent) => toAgentResponse(agent, parts))),
    }),
    defineRoute({
      method: "GET",
      path: `${prefix}/agents/{slug}`,
      auth: "key",
      needs: "view",
      summary: "Show an agent",
      tag,
      params: AgentPathSchema,
      responses: { 200: { description: "The agent", schema: AgentResponseSchema } },
      handler: ({ params }) => toAgentResponse(agents.get(params.slug), parts),
    }),
    defineRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/status`,
      auth: "key",
      needs: "view",
      summary: "Ask an agent about the progress of a job",
      description: "Calls the agent's `job_status`; `params.job_id` names the job.",
      tag,
      params: AgentPathSchema,
      body: AgentMethodParamsSchema,
      responses: { 200: { description: "The agent's response", schema: JobResponseSchema } },
      handler: ({ params, body }) =>
        runner.call(agents.get(params.slug).slug, {
          method: "job_status",
          jobId: jobIdIn(body.params),
          params: body.params,
        }),
    }),
    defineRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/chat`,
      auth: "key",
      needs: "start",
      summary: "Talk to an agent",
      description: "Returns the result of the agent's `chat` method.",
      tag,
      params: AgentPathSchema,
      body: AgentMethodParamsSchema,
      responses: { 200: { description: "The method's result", schema: v.unknown() } },
      handler: async ({ params, body }) =>
        (await runner.call(agents.get(params.slug).slug, { method: "chat", params: body.params })) ?? null,
    }),
    defineRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/custom/{name}`,
      auth: "key",
      needs: "operate",
      summary: "Call one of an agent's own methods",
      tag,
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
