import type { StartRequest } from "./load.ts";

let jobs = 0;

/** An id that no job of this process has had. */
export function newJobId(): string {
  return `job-${++jobs}`;
}

/** Starts a job of an agent of `service.mjs`, which said where it listens. That of the agent `three` is waited for. */
export function startOf(service: unknown, agent: "three" | "many", n: number): StartRequest {
  const { url, apiKey } = service as { url: string; apiKey: string };
  const job_context = {
    ...{ workspace_id: "w", job_id: newJobId() },
    ...{ started_by: "bench", started_at: "2026-01-31T09:30:00.000Z" },
    ...{ mission_id: "m", mission_name: "Mission" },
  };
  const headers = { "x-api-key": apiKey, ...(agent === "three" && { prefer: "wait=30" }) };
  return { url: new URL(`/agents/${agent}/jobs`, url), headers, body: { job_fields: { n }, job_context } };
}
