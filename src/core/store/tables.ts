import type { StoredCase } from "../models/case.ts";
import { failureOf, firstLineOf } from "../models/failure.ts";
import { nameOfFile } from "../models/file.ts";
import { groupOf } from "../models/file-kind.ts";
import { inputText } from "../models/input-text.ts";
import type { StoredJob } from "../models/job.ts";
import { HELD_JOBS, UNFINISHED, waitsFor } from "../models/job-state.ts";
import { nextNotice } from "../models/question.ts";
import { tagText } from "../models/tags.ts";
import { rowTable } from "./row-table.ts";
import type { TableSpec } from "./store.ts";
import { parseTimestamp } from "./timestamp.ts";

const time = (timestamp: string | null): number | null =>
  timestamp === null ? null : parseTimestamp(timestamp);

/** The times of what begins and ends, each parsed once; `duration` is in milliseconds, `null` while it is open. */
const timesOf = (of: Pick<StoredJob | StoredCase, "created_at" | "updated_at" | "finished_at">) => {
  const created = parseTimestamp(of.created_at);
  const updated = of.updated_at === of.created_at ? created : parseTimestamp(of.updated_at);
  const finished = of.finished_at === of.updated_at ? updated : time(of.finished_at);
  return { created, updated, finished, duration: finished === null ? null : finished - created };
};

/** In place of a time, where a suspended job waits for something that has no deadline. */
export const NO_WAKE_TIME = Number.MAX_SAFE_INTEGER;

const JOB_TABLE: TableSpec<StoredJob> = {
  name: "Job",
  readable: "name",
  version: 9,
  entity: true,
  index: (job) => {
    const { created, updated, finished, duration } = timesOf(job);
    return {
      status: job.status,
      stop_reason: job.stop_reason,
      forked_from: job.forked_from?.job_id ?? null,
      agent_name: job.agent_name,
      name: job.name,
      workspace_id: job.job_context.workspace_id,
      mission_id: job.job_context.mission_id,
      idempotency_key: job.idempotency_key,
      // Jobs of earlier versions do not have it.
      parent_id: job.parent?.job_id ?? null,
      schedule_id: job.schedule?.id ?? null,
      created_at: created,
      updated_at: updated,
      finished_at: finished,
      case_count: job.case_count,
      total_cost: job.total_cost,
      duration,
      // `null` where it is not suspended.
      wake_at: job.suspended ? (time(job.suspended.wake_at) ?? NO_WAKE_TIME) : null,
      waits_for: job.suspended ? waitsFor(job)! : null,
      tags: job.tags ? tagText(job.tags) : null,
      started_by: job.job_context.started_by,
      run_count: job.run_count,
      owner: job.owner ?? null,
      parked: job.parked === true,
      access: job.access ?? null,
      failure: failureOf(job),
    };
  },
  facets: [
    "status",
    "agent_name",
    "workspace_id",
    "idempotency_key",
    "parent_id",
    "schedule_id",
    "forked_from",
    "owner",
    "waits_for",
    "tags",
    "failure",
    "access",
  ],
  sorted: ["created_at", "updated_at", "name"],
  counted: ["status", "agent_name"],
  sparse: ["finished_at", "wake_at"],
  spans: { duration: ["finished_at", "created_at"] },
  // The figures of the dashboard, also those of callers who see some agents or workspaces.
  tallies: [
    { by: "created_at", fields: ["status", "agent_name"] },
    { by: "created_at", fields: ["status", "agent_name", "workspace_id"] },
    { by: "finished_at", fields: ["status", "agent_name", "failure"] },
    { by: "finished_at", fields: ["status", "agent_name", "failure", "workspace_id"] },
    { by: "finished_at", fields: ["status", "duration"] },
  ],
  // What instances look for each second, children whose parents may have ended, and jobs that other code may release.
  polled: [{ status: UNFINISHED, wake_at: null }, { status: UNFINISHED, parent_id: { gte: "" } }, HELD_JOBS],
  text: (job) => {
    const input = inputText(job.job_fields);
    const error = job.error ? firstLineOf(job.error) : "";
    return `${job.id}\n${job.name}${error && `\n${error}`}${input && `\n${input}`}`;
  },
};

const CASE_TABLE: TableSpec<StoredCase> = {
  name: "Case",
  readable: "name",
  version: 2,
  entity: true,
  index: (item) => {
    const { created, updated, finished, duration } = timesOf(item);
    return {
      status: item.status,
      job_id: item.job_id,
      ref: item.ref,
      name: item.name,
      created_at: created,
      updated_at: updated,
      finished_at: finished,
      total_cost: item.total_cost,
      duration,
      deadline: time(item.question?.deadline ?? null),
      assigned_to: item.question?.assigned_to ?? null,
      notice_at: item.question && item.status === "awaiting" ? nextNotice(item.question) : null,
    };
  },
  facets: ["status", "job_id", "assigned_to"],
  sorted: ["created_at", "updated_at", "name"],
  counted: ["status"],
  sparse: ["deadline", "finished_at", "notice_at"],
  spans: { duration: ["finished_at", "created_at"] },
  text: (item) => `${item.id}\n${item.name}\n${item.description}`,
};

/** Tables that every service has. */
export const CORE_TABLES: readonly TableSpec[] = [
  JOB_TABLE,
  CASE_TABLE,
  rowTable("DeletedJob", {
    readable: "name",
    version: 2,
    index: ({ status, agent_name, name, job_context, access, finished_at, deleted_at }) => ({
      ...{ status, agent_name, name },
      workspace_id: job_context.workspace_id,
      access: access ?? null,
      finished_at: time(finished_at),
      deleted_at: time(deleted_at),
    }),
    facets: ["status", "agent_name", "workspace_id", "access"],
    sorted: ["deleted_at"],
    sparse: ["finished_at"],
    text: ({ id, name }) => `${id}\n${name}`,
  }),
  // Cases of deleted jobs, and cases that were deleted alone: only those have `deleted_at`.
  rowTable("DeletedCase", {
    version: 2,
    index: ({ job_id, deleted_at }) => ({ job_id, deleted_at: time(deleted_at ?? null) }),
    facets: ["job_id"],
    sparse: ["deleted_at"],
    text: ({ id, name }) => `${id}\n${name}`,
  }),
  rowTable("AgentSetting"),
  rowTable("Retention"),
  rowTable("AuditHead"),
  // Without any key it says which keys are needed.
  rowTable("KeyMark", { readable: true }),
  rowTable("SigningKey"),
  rowTable("IdempotencyKey"),
  rowTable("KeyedRequest", {
    index: ({ job_id }) => ({ job_id }),
    facets: ["job_id"],
  }),
  rowTable("ShownQuestion", {
    index: ({ job_id }) => ({ job_id }),
    facets: ["job_id"],
  }),
  rowTable("Schedule"),
  rowTable("DamagedJob"),
  rowTable("ReceivedEvent", {
    index: ({ name, n, created_at }) => ({ name, n, created_at: time(created_at) }),
    facets: ["name"],
    sorted: ["created_at"],
  }),
  rowTable("EventName"),
  rowTable("EventWait", {
    index: ({ job_id, shape, match, event }) => ({ job_id, shape, match, event }),
    facets: ["job_id", "shape", "match", "event"],
  }),
  // Commands see by it whether a database is in use.
  rowTable("Instance", {
    readable: true,
    index: ({ seen_at }) => ({ seen_at: time(seen_at) }),
  }),
  rowTable("Probe", {
    index: ({ created_at, run_count }) => ({ created_at: time(created_at), run_count }),
  }),
  rowTable("SharedLimit"),
  rowTable("ModelUse", {
    index: ({ day, agent, model }) => ({ day, agent, model }),
    sorted: ["day"],
  }),
  rowTable("Spending", {
    index: ({ id, agent }) => ({ agent, month: id.split("/")[1] ?? "" }),
    facets: ["agent"],
  }),
  rowTable("WorkspaceSpending", {
    index: ({ workspace, month }) => ({ workspace, month }),
    facets: ["workspace"],
  }),
  rowTable("BudgetNotice"),
  rowTable("FailureMark"),
  rowTable("CheckedCode"),
  rowTable("Access", {
    index: ({ name }) => ({ name }),
    facets: ["name"],
  }),
  rowTable("Person"),
  rowTable("FileContent", { version: 2 }),
  rowTable("FileUpload", {
    version: 3,
    index: ({ sha256, touched_at, access, used }) => ({
      ...{ sha256, touched_at: time(touched_at) },
      unused_of: used ? null : access,
    }),
    facets: ["sha256", "unused_of"],
    sorted: ["touched_at"],
  }),
  rowTable("JobFile", {
    version: 2,
    index: (file) => {
      const { job_id, sha256, workspace, agent_name = null, access = null, created_at } = file;
      const named = nameOfFile(file);
      return {
        ...{ job_id, sha256, workspace, agent_name, access, created_at: time(created_at) },
        kind: groupOf(named),
        origin: named.artifact === undefined ? named.origin : "artifact",
      };
    },
    facets: ["job_id", "sha256", "workspace", "agent_name", "access", "kind", "origin"],
    sorted: ["created_at"],
    text: ({ names }) =>
      names.map(({ name, artifact = "", title = "" }) => `${name}\n${artifact}\n${title}`).join("\n"),
  }),
  rowTable("JobResult", {
    index: ({ job_id, sha256 }) => ({ job_id, sha256 }),
    facets: ["job_id", "sha256"],
  }),
  rowTable("FileTotal"),
  rowTable("FileRemoval", {
    index: ({ due_at }) => ({ due_at: time(due_at) }),
    sorted: ["due_at"],
  }),
  rowTable("Revocation", {
    index: ({ until }) => ({ until }),
    sorted: ["until"],
  }),
];
