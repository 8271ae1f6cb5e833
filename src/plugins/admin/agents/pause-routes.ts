import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { Runner } from "../../../core/runs/runner.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { PausedSchema } from "../answers/service.ts";
import { flashCookie } from "../flash.ts";
import type { AdminParts } from "../parts.ts";
import { pathTo } from "../views/pieces.ts";

const PathSchema = v.object({ slug: v.pipe(v.string(), v.maxLength(500)) });

const ACTS = {
  pause: {
    summary: "Pause an agent",
    description:
      "New jobs are accepted and wait in line; those that have started continue. It stays paused over restarts, on all instances: others follow within two seconds.",
    done: "The agent is paused: new jobs wait in line.",
  },
  resume: {
    summary: "Resume a paused agent",
    description: "The jobs that wait start, in their order.",
    done: "The agent was resumed.",
  },
} as const;

/** Pauses and resumes agents: by form and in the API. */
export function pauseRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { method: "POST", params: PathSchema } as const;
  return (["pause", "resume"] as const).flatMap((action) => {
    const { summary, description, done } = ACTS[action];
    const act = (runner: Runner, slug: string, by: Caller) =>
      action === "pause" ? runner.pauseAgent(slug, by) : runner.resumeAgent(slug, by);
    return [
      seenRoute(parts, {
        ...about,
        path: `/admin/api/agents/{slug}/${action}`,
        needs: "operate",
        summary,
        description,
        responses: {
          200: {
            description: "Whether it is paused",
            schema: v.object({ slug: v.string(), paused: v.nullable(PausedSchema) }),
          },
        },
        handler: async ({ params: { slug }, caller }, { runner }) => {
          await act(runner(), slug, caller);
          return { slug, paused: (await parts.settings.find(slug))?.paused ?? null };
        },
      }),
      seenRoute(parts, {
        ...about,
        path: `/admin/agents/{slug}/${action}`,
        needs: "operate",
        summary: `${summary} (form)`,
        hidden: true,
        responses: { 303: { description: "Redirect to the agent's page" } },
        handler: async ({ params: { slug }, event, caller }, { runner }) => {
          await act(runner(), slug, caller);
          return redirect(pathTo("agents", slug), [flashCookie(parts, event, "good", done)]);
        },
      }),
    ];
  });
}
