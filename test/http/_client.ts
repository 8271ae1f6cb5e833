import type { Job, JobContext } from "agent-control-service";
import type { TestServer } from "agent-control-service/testing";
import { expect } from "vitest";
import type { JobResponse } from "../../src/core/models/job-response.ts";
import { jobContext } from "./_jobs.ts";

/** Body of a request to start one of the clerk's jobs. */
export function startBody(
  id: string,
  fields: Record<string, unknown> = { mode: "greet" },
  context: Partial<JobContext> = {},
) {
  return { job_context: jobContext(id, context), job_fields: fields };
}

/** Starts one of the clerk's jobs; its answer must be 202. */
export async function startJob(
  server: TestServer,
  id: string,
  fields?: Record<string, unknown>,
  context?: Partial<JobContext>,
): Promise<Job> {
  const response = await server.request("/agents/clerk/jobs", { json: startBody(id, fields, context) });
  expect(response.status, await response.clone().text()).toBe(202);
  return (await response.json()) as Job;
}

/** Waits until a job has a status, as a client does. */
export async function waitFor(
  server: TestServer,
  id: string,
  status: JobResponse["status"],
): Promise<JobResponse> {
  let job: JobResponse | undefined;
  await expect
    .poll(
      async () => {
        job = (await (await server.request(`/jobs/${id}`)).json()) as JobResponse;
        return job.status;
      },
      { timeout: 60_000 },
    )
    .toBe(status);
  return job as JobResponse;
}
