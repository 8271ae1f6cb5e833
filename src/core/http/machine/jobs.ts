import * as v from "valibot";
import { andThen } from "../../base/maybe-promise.ts";
import { CaseSchema } from "../../models/case.ts";
import { JobSchema } from "../../models/job.ts";
import { JobInstructionsSchema } from "../../models/job-instructions.ts";
import { JobResponseSchema } from "../../models/job-response.ts";
import { ListedJobSchema } from "../../models/listed-job.ts";
import { announcePage, behindCursor } from "../cursor.ts";
import { KEY_NOTE, readGivenKey } from "../idempotency-key.ts";
import type { RouteDefinition } from "../route.ts";
import { shownCase, shownJob, shownResponse } from "../token-view.ts";
import { routesOf } from "../topic-routes.ts";
import { readWait } from "./agent-jobs.ts";
import { listJobs } from "./list-jobs.ts";
import type { MachineParts } from "./parts.ts";
import { CasesQuerySchema, JobPathSchema, JobsQuerySchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Jobs", narrows: true });

/** Jobs of all agents, and resuming those that have ended. */
export function jobRoutes({ prefix, seen }: MachineParts): RouteDefinition[] {
  return [
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs`,
      needs: "view",
      summary: "List all jobs",
      description:
        "Newest first; the header `X-Total-Count` counts all that match, and `X-Next-Cursor` is `after` of the next page.",
      query: JobsQuerySchema,
      responses: { 200: { description: "A page of jobs", schema: v.array(ListedJobSchema) } },
      stored: true,
      handler: ({ query, event, caller }) => listJobs(seen(caller), { query, event }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}`,
      token: { scope: "status", job: "id" },
      needs: "view",
      summary: "Show a job",
      description: "The job with its status, result, cost and the ids of its cases.",
      params: JobPathSchema,
      responses: { 200: { description: "The job", schema: JobResponseSchema } },
      stored: true,
      handler: ({ params, caller }) => {
        const { jobs, runner } = seen(caller);
        return andThen(jobs.peek(params.id), (job) => {
          const response = runner.describe(job);
          // The most frequent request: keys see all of it.
          return caller.kind === "token" ? shownResponse(response, caller) : response;
        });
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/result`,
      token: { scope: "status", job: "id" },
      needs: "view",
      summary: "Show a job with its result",
      description:
        "All of the job, whatever its status. With the header `Prefer: wait=30` the response is sent once the job has ended, or after that many seconds (60 at most): repeat the request until `status` is `completed`, `failed` or `cancelled`.",
      params: JobPathSchema,
      responses: { 200: { description: "The job", schema: JobSchema } },
      handler: async ({ params, event, caller }) => {
        const { jobs, runner } = seen(caller);
        const job = await jobs.get(params.id);
        const seconds = readWait(event);
        if (seconds === undefined) return shownJob(await jobs.show(job), caller);
        event.res.headers.set("preference-applied", `wait=${seconds}`);
        return shownJob(await jobs.show(await runner.ended(job.id, seconds * 1000)), caller);
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/stop`,
      token: { scope: "stop", job: "id" },
      needs: "start",
      summary: "Ask a job of any agent to stop",
      description:
        "The job is `cancelling` until its run has ended, then `cancelled`. A job that has ended is unchanged.",
      params: JobPathSchema,
      responses: { 200: { description: "The current state of the job", schema: JobResponseSchema } },
      handler: async ({ params, caller }) => {
        const { runner } = seen(caller);
        return shownResponse(runner.describe(await runner.stop(params.id, caller)), caller);
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/cases`,
      token: { scope: "status", job: "id" },
      needs: "view",
      summary: "List a job's cases",
      description:
        "Oldest first; the header `X-Total-Count` counts all, and `X-Next-Cursor` is `after` of the next page. Each case has its newest updates, as many as `updates` says; `update_count` counts all. `GET /admin/api/cases/{id}` returns all of them.",
      params: JobPathSchema,
      query: CasesQuerySchema,
      responses: { 200: { description: "A page of cases", schema: v.array(CaseSchema) } },
      handler: async ({ params, query: { updates, after, ...query }, event, caller }) => {
        const { jobs, cases } = seen(caller);
        const job = await jobs.get(params.id);
        const asked = { where: { job_id: job.id }, sort: "created_at", ...query };
        const page = await cases.listWithUpdates(behindCursor(asked, after), updates);
        announcePage(event, asked.sort, page);
        return page.items.map((item) => shownCase(item, caller));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/resume`,
      needs: "operate",
      summary: "Resume a job that a limit ended",
      description: `\`job_instructions\` contains the limits to raise; omitted ones stay unchanged. ${KEY_NOTE}`,
      params: JobPathSchema,
      body: v.optional(v.object({ job_instructions: v.optional(v.partial(JobInstructionsSchema)) }), {}),
      status: 202,
      responses: { 202: { description: "The job, queued again", schema: JobSchema } },
      handler: async ({ params, body, caller, event }) => {
        const once = readGivenKey(event, "resume", body.job_instructions ?? null);
        const { jobs, runner } = seen(caller);
        return jobs.show(await runner.resume(params.id, body.job_instructions, caller, once));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/retry`,
      needs: "operate",
      summary: "Run a failed or cancelled job again",
      description: `From its last good step, or from the start with nothing recorded; a held job from the start only. ${KEY_NOTE}`,
      params: JobPathSchema,
      body: v.optional(v.object({ from: v.optional(v.picklist(["last_step", "start"]), "last_step") }), {}),
      status: 202,
      responses: { 202: { description: "The job, queued again", schema: JobSchema } },
      handler: async ({ params, body, caller, event }) => {
        const { jobs, runner } = seen(caller);
        const once = readGivenKey(event, "retry", body.from);
        return jobs.show(await runner.retry(params.id, body.from, caller, once));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/continue`,
      needs: "operate",
      summary: "Resume a held job with the current code",
      description: `Of a job whose \`stop_reason\` is \`code_changed\`. Recorded calls that the code does not make no longer count; they stay in the log. Answers count. ${KEY_NOTE}`,
      params: JobPathSchema,
      status: 202,
      responses: { 202: { description: "The job, queued again", schema: JobSchema } },
      handler: async ({ params, caller, event }) => {
        const { jobs, runner } = seen(caller);
        return jobs.show(await runner.continue(params.id, caller, readGivenKey(event, "continue")));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/jobs/{id}/move`,
      needs: "operate",
      summary: "Give an open job another version of its agent",
      description: `Refused where the job's record does not fit that version. ${KEY_NOTE}`,
      params: JobPathSchema,
      body: v.object({ version: v.string() }),
      status: 202,
      responses: { 202: { description: "The job, queued again", schema: JobSchema } },
      handler: async ({ params, body: { version }, caller, event }) => {
        const { jobs, runner } = seen(caller);
        const once = readGivenKey(event, "move", version);
        return jobs.show(await runner.move(params.id, version, caller, once));
      },
    }),
  ];
}
