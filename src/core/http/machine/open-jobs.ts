import { readOpenJobs } from "../../runs/open-jobs.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** Sends what is recorded of the jobs that have not ended. */
export function openJobsRoute(parts: MachineParts): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: `${parts.prefix}/utils/open-jobs`,
    auth: "key",
    summary: "The run logs of all open jobs",
    description:
      "For `svc check`: a line of JSON for each job that has not ended, with the job, its cases without their updates, and its run log. Parameters are not part of it.",
    tag: "Jobs",
    responses: { 200: { description: "The jobs", contentType: "application/x-ndjson" } },
    handler: () => {
      const jobs = readOpenJobs(parts);
      const encoder = new TextEncoder();
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          const { value, done } = await jobs.next();
          if (done) controller.close();
          else controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
        },
        cancel: async () => void (await jobs.return(undefined)),
      });
      const headers = { "content-type": "application/x-ndjson", "cache-control": "no-store" };
      return new Response(body, { headers });
    },
  });
}
