import * as v from "valibot";
import { JobSchema } from "../../models/job.ts";
import { ScheduleSchema } from "../../models/schedule.ts";
import { readIdempotencyKey } from "../idempotency-key.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const keyRoute = routesOf({ auth: "key", tag: "Schedules", narrows: true });
const SchedulePathSchema = v.object({ id: v.string() });

/** The schedules of the service: what is planned, and what came of it. */
export function scheduleRoutes({ prefix, seen }: MachineParts): RouteDefinition[] {
  return [
    keyRoute({
      method: "GET",
      path: `${prefix}/schedules`,
      needs: "view",
      summary: "List the schedules",
      description: "In the order in which the service declares them: those whose jobs the caller sees all.",
      responses: { 200: { description: "The schedules", schema: v.array(ScheduleSchema) } },
      handler: ({ caller }) => seen(caller).runner.schedules.list(),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/schedules/{id}`,
      needs: "view",
      summary: "Show a schedule",
      description: "When it starts jobs, with which fields, and what came of it last.",
      params: SchedulePathSchema,
      responses: { 200: { description: "The schedule", schema: ScheduleSchema } },
      handler: ({ params, caller }) => seen(caller).runner.schedules.show(params.id),
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/schedules/{id}/run`,
      needs: "operate",
      summary: "Start a job of a schedule now",
      description:
        "Whatever is planned, and also while the schedule is paused. Its planned times are unchanged. With an `Idempotency-Key` header, repeating the request returns the same job and starts nothing.",
      params: SchedulePathSchema,
      status: 202,
      responses: { 202: { description: "The job, stored and queued", schema: JobSchema } },
      handler: async ({ params, caller, event }) => {
        const { jobs, runner } = seen(caller);
        return jobs.show(await runner.schedules.run(params.id, caller, readIdempotencyKey(event)));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/schedules/{id}/pause`,
      needs: "operate",
      summary: "Pause a schedule",
      description:
        "It starts no jobs until it is resumed, also over restarts. Jobs that it has started continue.",
      params: SchedulePathSchema,
      responses: { 200: { description: "The schedule", schema: ScheduleSchema } },
      handler: ({ params, caller }) => seen(caller).runner.schedules.pause(params.id, caller),
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/schedules/{id}/resume`,
      needs: "operate",
      summary: "Resume a paused schedule",
      description: "From now on: times that were planned during the pause are not caught up.",
      params: SchedulePathSchema,
      responses: { 200: { description: "The schedule", schema: ScheduleSchema } },
      handler: ({ params, caller }) => seen(caller).runner.schedules.resume(params.id, caller),
    }),
  ];
}
