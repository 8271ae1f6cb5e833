import * as v from "valibot";
import { JobSchema } from "../../models/job.ts";
import { EntityIdSchema, JsonMapSchema } from "../../models/scalars.ts";
import { Answer } from "../answer.ts";
import { readIdempotencyKey } from "../idempotency-key.ts";
import { NDJSON, ndjson } from "../ndjson.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";
import { CallsQuerySchema, JobPathSchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Jobs", narrows: true });

const CallSchema = v.object({ name: v.string(), line: v.nullable(v.number()) });
const ForkSchema = v.object({
  from: v.pipe(v.string(), v.minLength(1)),
  fields: v.optional(JsonMapSchema),
  job_id: v.optional(EntityIdSchema),
});

/** New jobs that start with what others have recorded. */
export function forkRoutes({ prefix, seen }: MachineParts): RouteDefinition[] {
  return [
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/calls`,
      needs: "view",
      summary: "List a job's recorded calls",
      description:
        "In the order of its log, named as `POST /jobs/{id}/fork` takes them; `line` is the line of the log that ended the call, `null` while it has not ended. The header `X-Total-Count` counts all.",
      params: JobPathSchema,
      query: CallsQuerySchema,
      responses: { 200: { description: "A page of calls", schema: v.array(CallSchema) } },
      handler: async ({ params, query: { limit, skip }, event, caller }) => {
        const calls = await seen(caller).runner.calls(params.id);
        event.res.headers.set("x-total-count", String(calls.length));
        return calls.slice(skip, skip + limit);
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/export`,
      needs: "view",
      summary: "All that is recorded of a job",
      description:
        'For `svc job pull`: a line of JSON for the job, for each line of its log, and for each case and each update of it; the last line is `{"type":"end"}`. Known secrets are masked; parameters are not part of it. It leaves a line in the audit log.',
      params: JobPathSchema,
      responses: { 200: { description: "The record", contentType: NDJSON } },
      handler: async ({ params, caller }) => ndjson(await seen(caller).runner.export(params.id, caller)),
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/fork`,
      needs: "operate",
      summary: "Start a new job with the recorded beginning of this one",
      description:
        "Copies all that is recorded before the call `from` (a name of `GET /jobs/{id}/calls`, or `start`, or `end`), with its cases, and makes that call and all later ones. `fields` replaces fields of the job. The job itself, which may have any status, does not change. With a `job_id` or an `Idempotency-Key` header, repeating the request returns the same job.",
      params: JobPathSchema,
      body: ForkSchema,
      status: 202,
      responses: { 202: { description: "The new job, stored and queued", schema: JobSchema } },
      handler: async ({ params, body, event, caller }) => {
        const { jobs, runner } = seen(caller);
        const job = await runner.fork(
          params.id,
          { idempotencyKey: readIdempotencyKey(event), ...body },
          caller,
        );
        const location = `${prefix}/agents/${job.agent_name}/jobs/${job.id}`;
        return new Answer(await jobs.show(job), 202, [["location", location]]);
      },
    }),
  ];
}
