import type { Service } from "agent-control-service";
import { answerCase, askCase, endCase, updateCase } from "../../src/core/entities/change-case.ts";
import { holdJob, moveJob, releaseJob } from "../../src/core/entities/change-job.ts";
import { createJob } from "../../src/core/entities/create-job.ts";
import { openCase } from "../../src/core/entities/open-case.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { RUNNER } from "../../src/core/service/tokens.ts";

const ACCOUNT = { workspace_id: "dev", api_key: null, api_url: null };

/** Takes a job through its life as a run does, without an agent: what is stored is what events are made from. */
export async function workThrough(
  service: Service,
  jobId: string,
  {
    cases = 1,
    updates = 1,
    end = "successfully_done" as "successfully_done" | "error_encountered",
    held = undefined as string | undefined,
  } = {},
): Promise<void> {
  const ledger = service.get(LEDGER);
  const job = {
    id: jobId,
    name: jobId,
    agent_name: "greeter",
    fingerprint: jobId,
    encrypted_agent_parameters: null,
    job_fields: {},
    job_context: {
      workspace_id: "dev",
      job_id: jobId,
      started_by: "test",
      started_at: "2026-01-01T00:00:00.000Z",
      mission_id: "m",
      mission_name: "Mission",
      mission_context: null,
      job_instructions: null,
    },
  };
  // No other instance claims a job that has an owner.
  const { instance: owner } = service.get(RUNNER);
  await ledger.write(async (unit) => {
    await createJob(unit, job);
    await moveJob(unit, jobId, "start_work", { run_count: 1, ...(owner !== undefined && { owner }) });
  });
  for (let c = 1; c <= cases; c++) {
    const input = { ref: `${jobId}.c${c}`, name: `Case ${c}`, description: "" };
    const { id } = await ledger.write((unit) => openCase(unit, jobId, input, ACCOUNT));
    for (let u = 1; u <= updates; u++) {
      await ledger.write((unit) => updateCase(unit, id, { name: `step ${u}`, cost: 0.5 }));
    }
    const to = end === "successfully_done" ? "completed" : "failed";
    await ledger.write((unit) => endCase(unit, id, { to, delivery: { done: c } }));
  }
  if (held !== undefined) {
    await ledger.write((unit) => holdJob(unit, jobId, { reason: "crash_loop", error: held }));
    await ledger.write((unit) => releaseJob(unit, jobId, { by: "someone" }));
  }
  await ledger.write((unit) => moveJob(unit, jobId, end, { result: { ok: true } }));
}

/** Asks and answers a question inside a case. */
export async function askAndAnswer(service: Service, jobId: string, caseId: string): Promise<void> {
  const ledger = service.get(LEDGER);
  await ledger.write((unit) =>
    askCase(unit, caseId, {
      id: "0",
      question: "Pay it?",
      fields: [],
      asked_at: unit.now,
      deadline: null,
      on_timeout: "fail",
      default: null,
    }),
  );
  await ledger.write((unit) => answerCase(unit, caseId, { answer: { yes: true }, by: jobId }));
}
