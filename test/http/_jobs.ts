import type { JobContext, Service } from "agent-control-service";
import { createJob } from "../../src/core/entities/create-job.ts";
import type { Unit } from "../../src/core/entities/ledger.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";

/** A job context with everything that is required. */
export function jobContext(id: string, more: Partial<JobContext> = {}): JobContext {
  return {
    workspace_id: "workspace-1",
    job_id: id,
    started_by: "someone",
    started_at: "2026-01-31T09:30:00.000Z",
    mission_id: "mission-1",
    mission_name: "Mission",
    mission_context: null,
    job_instructions: null,
    ...more,
  };
}

/** Stores a job that nothing runs. */
export async function storeJob(service: Service, id: string, agent = "greeter"): Promise<void> {
  const job = {
    id,
    name: id,
    agent_name: agent,
    job_context: jobContext(id),
    job_fields: { name: "Ada" },
    fingerprint: id,
    encrypted_agent_parameters: null,
  };
  await write(service, (unit) => createJob(unit, job));
}

/** Changes what is stored as a run does. */
export function write<T>(service: Service, change: (unit: Unit) => Promise<T>): Promise<T> {
  return service.get(LEDGER).write(change);
}

/** Adds a line to a job's run log. */
export function note(service: Service, id: string, message: string): Promise<number> {
  return service.get(LEDGER).write((unit) => unit.record(id, { type: "mark", mark: "note", message }));
}
