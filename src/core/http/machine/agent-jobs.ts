import * as v from "valibot";
import { andThen } from "../../base/maybe-promise.ts";
import { AgentJobContextBaseSchema } from "../../models/agent-method.ts";
import { JobSchema } from "../../models/job.ts";
import { FullStartContextSchema, StartContextSchema } from "../../models/job-context.ts";
import { JobResponseSchema } from "../../models/job-response.ts";
import { ListedJobSchema } from "../../models/listed-job.ts";
import { EntityIdSchema, optional } from "../../models/scalars.ts";
import { TagsSchema } from "../../models/tags.ts";
import { Answer } from "../answer.ts";
import { readIdempotencyKey } from "../idempotency-key.ts";
import type { HttpEvent, RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import { listJobs } from "./list-jobs.ts";
import type { MachineParts } from "./parts.ts";
import { AgentJobPathSchema, AgentPathSchema, JobsQuerySchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Jobs of an agent" });
/** Seconds; proxies abort longer requests. */
const LONGEST_WAIT = 60;

const StartSchema = v.object({
  ...AgentJobContextBaseSchema.entries,
  encrypted_agent_parameters: optional(v.string()),
  /** By which the job is found, such as `customer:acme`. */
  tags: v.optional(TagsSchema),
});
/** A control system identifies jobs by its own ids: the service must not invent them. */
const ControlledStartSchema = v.object({ ...StartSchema.entries, job_context: FullStartContextSchema });
/** Control systems send again what a job was started with. */
const StopSchema = v.object({
  ...AgentJobContextBaseSchema.entries,
  job_context: v.object({ ...StartContextSchema.entries, job_id: EntityIdSchema }),
});

/** Starting, stopping and reading an agent's jobs. */
export function agentJobRoutes(parts: MachineParts): RouteDefinition[] {
  const { prefix, envelopes, seen, hasControlSystem } = parts;
  return [
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/jobs`,
      needs: "start",
      narrows: true,
      summary: "Start a job",
      description:
        "A job without a `job_context.job_id` gets a new id; other missing fields of `job_context` are filled in. A service that reports to a control system requires all of them. With an id, repeating the request returns the same job and starts nothing; different content under the same id is refused with 409. An `Idempotency-Key` header does the same for requests whose ids differ or are missing. While the job is queued, `X-Queue-Position` is its position (1 is next) and `X-Queue-Length` the number of queued jobs. With the header `Prefer: wait=30` the response is sent once the job has ended, or after that many seconds (60 at most).",
      params: AgentPathSchema,
      body: hasControlSystem ? ControlledStartSchema : StartSchema,
      status: 202,
      stored: true,
      responses: { 202: { description: "The job, stored and queued", schema: JobSchema } },
      handler: async ({ params, body, event, caller }) => {
        const { agents, jobs, runner } = seen(caller);
        const { slug } = agents.get(params.slug);
        const request = { idempotencyKey: readIdempotencyKey(event), ...body };
        const job = await envelopes.pass(event, body.encrypted_agent_parameters, () =>
          runner.start(slug, request),
        );
        const headers: [string, string][] = [["location", `${prefix}/agents/${slug}/jobs/${job.id}`]];
        const place = await runner.position(job.id);
        if (place) {
          headers.push(
            ["x-queue-position", String(place.position)],
            ["x-queue-length", String(place.queued)],
          );
        }
        const seconds = readWait(event);
        if (seconds === undefined) return new Answer(await jobs.show(job), 202, headers);
        headers.push(["preference-applied", `wait=${seconds}`]);
        return new Answer(await jobs.show(await runner.ended(job.id, seconds * 1000)), 202, headers);
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/agents/{slug}/jobs`,
      needs: "view",
      narrows: true,
      summary: "List an agent's jobs",
      description:
        "Newest first; the header `X-Total-Count` counts all that match, and `X-Next-Cursor` is `after` of the next page.",
      params: AgentPathSchema,
      query: JobsQuerySchema,
      responses: { 200: { description: "A page of jobs", schema: v.array(ListedJobSchema) } },
      handler: ({ params, query, event, caller }) => {
        const { agents, ...found } = seen(caller);
        return listJobs(found, { query, agent: agents.get(params.slug).slug, event });
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/agents/{slug}/jobs/{id}`,
      needs: "view",
      narrows: true,
      summary: "Show one of an agent's jobs",
      description: "The newest response of the job: its status, and what it says of itself.",
      params: AgentJobPathSchema,
      responses: { 200: { description: "The job", schema: JobResponseSchema } },
      handler: ({ params, caller }) => {
        const { agents, jobs, runner } = seen(caller);
        return andThen(jobs.peek(params.id, agents.get(params.slug).slug), (job) => runner.describe(job));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/agents/{slug}/stop`,
      needs: "start",
      narrows: true,
      summary: "Ask a job to stop",
      description:
        "Only `job_context.job_id` is read; the rest may be what the job was started with. The job is `cancelling` until its run has ended, then `cancelled`. A job that has ended is unchanged.",
      params: AgentPathSchema,
      body: StopSchema,
      responses: { 200: { description: "The current state of the job", schema: JobResponseSchema } },
      handler: async ({ params, body, caller }) => {
        const { agents, jobs, runner } = seen(caller);
        const job = await jobs.get(body.job_context.job_id, agents.get(params.slug).slug);
        return runner.describe(await runner.stop(job.id, caller));
      },
    }),
  ];
}

/** Seconds that the caller would wait for the end of the job (RFC 7240, section 4.3). */
export function readWait(event: HttpEvent): number | undefined {
  const wait = /(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])/i.exec(event.req.headers.get("prefer") ?? "")?.[1];
  return wait === undefined ? undefined : Math.min(Number(wait), LONGEST_WAIT);
}
