import { readOpenJobs } from "../../runs/check/open-jobs.ts";
import { NDJSON, ndjson } from "../ndjson.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** Sends what is recorded of the jobs that have not ended. */
export function openJobsRoute(parts: MachineParts): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: `${parts.prefix}/utils/open-jobs`,
    auth: "key",
    needs: "view",
    summary: "The run logs of all open jobs",
    description:
      "For `svc check`: a line of JSON for each job that has not ended, with the job, its cases without their updates, and its run log. Parameters are not part of it.",
    tag: "Jobs",
    responses: { 200: { description: "The jobs", contentType: NDJSON } },
    handler: () => ndjson(readOpenJobs({ ...parts, readResult: (file) => parts.files.readResult(file) })),
  });
}
