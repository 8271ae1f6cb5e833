import type { Service } from "agent-control-service";
import { askCase, endCase, updateCase } from "../../src/core/entities/change-case.ts";
import { moveJob } from "../../src/core/entities/change-job.ts";
import { createJob } from "../../src/core/entities/create-job.ts";
import type { Unit } from "../../src/core/entities/ledger.ts";
import { openCase } from "../../src/core/entities/open-case.ts";
import type { EntityStatus } from "../../src/core/models/entity-status.ts";
import type { StopReason } from "../../src/core/models/job.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";

const account = { workspace_id: "w", api_key: null, api_url: null };

export interface SeedJob {
  readonly id: string;
  readonly name?: string;
  readonly agent?: string;
  readonly status?: EntityStatus;
  readonly fields?: Record<string, unknown>;
  readonly error?: string;
  readonly stop_reason?: StopReason;
  readonly result?: unknown;
}

/** Stores a job as a run would have left it. */
export async function seedJob(service: Service, job: SeedJob): Promise<void> {
  await service.get(LEDGER).write((unit) => storeJob(unit, job));
}

async function storeJob(unit: Unit, job: SeedJob): Promise<void> {
  await createJob(unit, {
    id: job.id,
    name: job.name ?? `Job ${job.id}`,
    agent_name: job.agent ?? "greeter",
    job_fields: job.fields ?? {},
    fingerprint: job.id,
    encrypted_agent_parameters: null,
    job_context: {
      workspace_id: "w",
      job_id: job.id,
      started_by: "tests",
      started_at: "2026-01-01T00:00:00.000Z",
      mission_id: "m",
      mission_name: job.name ?? "Mission",
      mission_context: null,
      job_instructions: null,
    },
  });
  const status = job.status ?? "stopped";
  if (status === "stopped") return;
  await moveJob(unit, job.id, "start_work");
  if (status === "completed")
    await moveJob(unit, job.id, "successfully_done", { result: job.result ?? { message: "done" } });
  if (status === "failed")
    await moveJob(unit, job.id, "error_encountered", {
      error: job.error ?? "it broke",
      stop_reason: job.stop_reason ?? null,
    });
  if (status === "cancelled") await moveJob(unit, job.id, ["cancel_requested", "cancel_confirmed"]);
}

export interface SeedCase {
  readonly job: string;
  readonly ref: string;
  readonly name?: string;
  readonly description?: string;
  readonly cost?: number;
  readonly payload?: Record<string, unknown>;
  readonly question?: string;
  readonly deadline?: string;
  readonly close?: Record<string, unknown>;
}

/** Opens a case of a running job, with an update; then asks or closes it. */
export async function seedCase(service: Service, item: SeedCase): Promise<string> {
  return service.get(LEDGER).write(async (unit) => {
    const opened = await openCase(
      unit,
      item.job,
      { ref: item.ref, name: item.name ?? `Case ${item.ref}`, description: item.description ?? "" },
      account,
    );
    const { id } = opened;
    await unit.record(item.job, { type: "call", position: 0, call: "open_case", name: item.ref });
    await updateCase(unit, id, {
      name: "check",
      cost: item.cost ?? 0.5,
      payload: item.payload ?? { total: 1 },
    });
    if (item.question) {
      await askCase(unit, id, {
        id: "1",
        question: item.question,
        fields: [field("approved", "BooleanField", true), field("reason", "CharField", false)],
        asked_at: unit.now,
        deadline: item.deadline ?? null,
        on_timeout: "fail",
        default: null,
      });
    }
    if (item.close) await endCase(unit, id, { to: "completed", delivery: item.close });
    return id;
  });
}

function field(name: string, field_type: "BooleanField" | "CharField", required: boolean) {
  return {
    name,
    type: null,
    field_type,
    description: null,
    choices: null,
    default: null,
    widget: null,
    required,
  };
}
