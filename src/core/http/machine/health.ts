import * as v from "valibot";
import { readAgentHealth } from "../../agents/agent-health.ts";
import { TimestampSchema } from "../../models/scalars.ts";
import type { ShippingHealth } from "../../store/store.ts";
import { Answer } from "../answer.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import { VERSION } from "../service-state.ts";
import type { MachineParts } from "./parts.ts";

const tag = "Health";
const ServiceHealthSchema = v.object({
  status: v.picklist(["healthy", "degraded", "unhealthy"]),
  timestamp: TimestampSchema,
  version: v.string(),
  /** Seconds. */
  uptime: v.number(),
  /** What `svc deploy` made this instance from: its variable `SVC_RELEASE`. */
  release: v.optional(v.string()),
  /** Whether this instance has run its probe job, where several share the store: until then it is `unhealthy`. */
  probe: v.optional(v.picklist(["pending", "done"])),
  /** Where backups of the store are made: when the last one was, and the seconds since then. */
  backup: v.optional(v.object({ last_at: v.nullable(TimestampSchema), lag: v.nullable(v.number()) })),
  /**
   * Of a store that ships what is on its disk to a storage: seconds since the oldest write that is not there, the number of
   * groups of writes that are not there and their bytes, when the last one was shipped, what this start has restored, and the
   * number of folders with writes that were not shipped before another instance took over.
   */
  storage: v.optional(
    v.object({
      lag: v.number(),
      groups: v.number(),
      bytes: v.number(),
      last_at: v.nullable(TimestampSchema),
      restored: v.nullable(v.object({ as_of: v.nullable(TimestampSchema), may_lack: v.boolean() })),
      set_aside: v.number(),
    }),
  ),
  /** The problem, if there is one. */
  detail: v.optional(v.string()),
});
export const AgentHealthSchema = v.object({
  agent_id: v.string(),
  name: v.string(),
  slug: v.string(),
  status: v.picklist(["available", "busy", "degraded"]),
  version: v.string(),
  /** Whether it starts no new jobs, because a person paused it. */
  paused: v.boolean(),
  statistics: v.object({
    total_jobs: v.number(),
    completed_jobs: v.number(),
    failed_jobs: v.number(),
    in_progress_jobs: v.number(),
    success_rate: v.number(),
  }),
});

/** Health of the service and its agents. These paths do not have the API prefix. */
export function healthRoutes(parts: MachineParts): RouteDefinition[] {
  const { agents, jobs, runner, clock } = parts;
  return [
    defineRoute({
      method: "GET",
      path: "/.well-known/health",
      auth: "none",
      // Probes add parameters, so that no cache answers them.
      query: v.looseObject({}),
      needs: "nothing",
      summary: "Health of the service",
      description:
        "`unhealthy`, with status 503, while the store cannot write, and where instances share the store, until this one has run its probe job and from when it closes; `degraded` while new jobs are refused.",
      tag,
      responses: {
        200: { description: "The service works", schema: ServiceHealthSchema },
        503: { description: "The store cannot write", schema: ServiceHealthSchema },
      },
      handler: () => {
        const health = serviceHealth(parts);
        const { state } = parts;
        const backup = parts.backups();
        const { shipping } = parts.store.health();
        return new Answer(
          {
            status: health.status,
            timestamp: clock().toISOString(),
            version: VERSION,
            uptime: state.uptime(),
            release: state.release,
            probe: runner.probe,
            backup: backup && { last_at: backup.last?.made_at ?? null, lag: backup.lag },
            storage: shipping && describeShipping(shipping),
            detail: health.detail,
          },
          health.status === "unhealthy" ? 503 : 200,
        );
      },
    }),
    defineRoute({
      method: "GET",
      path: "/agents/health",
      auth: "key",
      needs: "view",
      summary: "Health of the agents",
      description:
        "An agent is `busy` while one of its jobs runs (not while they only sleep or wait) and `degraded` when more than half of its jobs failed or were cancelled. `paused` agents start no new jobs. `success_rate` is the percentage of its jobs that completed.",
      tag,
      responses: {
        200: {
          description: "The agents by id",
          schema: v.object({
            status: v.picklist(["healthy", "degraded", "unhealthy"]),
            timestamp: TimestampSchema,
            agents: v.record(v.string(), AgentHealthSchema),
          }),
        },
      },
      handler: async () => {
        const { pausedAgents } = runner;
        const entries = await Promise.all(
          agents
            .list()
            .map(async (agent) => [agent.id, await readAgentHealth(agent, { jobs, pausedAgents })] as const),
        );
        const { status } = serviceHealth(parts);
        const degraded = entries.some(([, agent]) => agent.status === "degraded");
        return {
          status: status === "healthy" && degraded ? "degraded" : status,
          timestamp: clock().toISOString(),
          agents: Object.fromEntries(entries),
        };
      },
    }),
  ];
}

function describeShipping({ error: _, set_aside, ...shipping }: ShippingHealth) {
  return { ...shipping, set_aside: set_aside.length };
}

/** Anyone may read this: it contains no paths or error messages. */
function serviceHealth({ store, state, runner, maxQueuedJobs }: MachineParts): {
  status: "healthy" | "degraded" | "unhealthy";
  detail?: string;
} {
  if (!store.health().writable) return { status: "unhealthy", detail: "The store cannot write" };
  if (runner.probe === "pending") return { status: "unhealthy", detail: "The probe job has not run" };
  // Where there are others, a proxy sends nothing more here.
  if (state.closing)
    return { status: store.isShared ? "unhealthy" : "degraded", detail: "The service is closing" };
  if (runner.isPaused)
    return { status: "degraded", detail: "The service is paused: it takes jobs in and runs none" };
  if (runner.load().queued >= maxQueuedJobs)
    return { status: "degraded", detail: "The queue of jobs is full" };
  return { status: "healthy" };
}
