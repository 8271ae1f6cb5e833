import * as v from "valibot";
import { EntityStatusSchema } from "./entity-status.ts";
import { JobContextSchema } from "./job-context.ts";
import { JobResponseSchema } from "./job-response.ts";
import { ForkedFromSchema, PulledFromSchema } from "./lineage.ts";
import { EntityIdSchema, JsonMapSchema, NameSchema, optional, TimestampSchema } from "./scalars.ts";
import { type Suspended, SuspendedSchema, toSuspended } from "./suspended.ts";
import { TagsSchema } from "./tags.ts";

/** Why a job ended without finishing its work, or with `code_changed` why it cannot resume. */
export const StopReasonSchema = v.picklist([
  "max_cases",
  "max_cost",
  "max_duration",
  "stop_on_error",
  "stop_on_warning",
  "timeout",
  "stopped",
  "parent_ended",
  "interrupted",
  "question_expired",
  "nondeterministic",
  "code_changed",
  "pulled",
  "overridden",
  "damaged",
  "crash_loop",
  "unreadable_parameters",
  "crashed",
  "error",
]);
export type StopReason = v.InferOutput<typeof StopReasonSchema>;

/** An agent's version, and the fingerprint of its code; null where a job was recorded without them. */
const CodeSchema = v.object({ version: v.nullable(v.string()), fingerprint: v.nullable(v.string()) });
export type Code = v.InferOutput<typeof CodeSchema>;

/** Why a job is held: its record does not fit the code. */
export const HeldSchema = v.object({
  at: TimestampSchema,
  message: v.string(),
  /** The recorded call that the code does not make, such as `step "pay"`; null where the code failed before it. */
  expected: v.string(),
  /** The call that the code makes in its place; null where it makes none. */
  found: v.nullable(v.string()),
  /** The code that recorded the call, and the code that does not make it. */
  recorded: CodeSchema,
  present: CodeSchema,
});
export type Held = v.InferOutput<typeof HeldSchema>;

/** The job that started this one as its child. */
export const ParentSchema = v.object({
  job_id: EntityIdSchema,
  /** The call that started it: its key, else the agent's slug. */
  call: v.string(),
  /** Whether it continues when its parent is cancelled or fails. */
  detached: v.boolean(),
});
export type Parent = v.InferOutput<typeof ParentSchema>;

/** A unit of work that an agent runs, as returned over HTTP. */
export const JobSchema = v.object({
  id: EntityIdSchema,
  name: NameSchema,
  agent_name: v.string(),
  status: EntityStatusSchema,
  job_context: JobContextSchema,
  payload: v.optional(v.unknown(), null),
  result: v.optional(v.unknown(), null),
  error: optional(v.string()),
  responses: v.optional(v.array(JobResponseSchema), []),
  finished_at: optional(TimestampSchema),
  created_at: TimestampSchema,
  updated_at: TimestampSchema,
  /** Names of the parameters that were sent with the job; never their values. */
  agent_parameters: optional(v.array(JsonMapSchema)),
  case_ids: v.optional(v.array(v.string()), []),
  /** Fields of the start request, defaults filled in. */
  job_fields: JsonMapSchema,
  /** By which it is found; absent where it has none. */
  tags: v.optional(TagsSchema),
  /** Sum of what the job's steps and cases cost. */
  total_cost: v.optional(v.number(), 0),
  stop_reason: optional(StopReasonSchema),
  /** Version of the agent that the job belongs to. */
  agent_version: optional(v.string()),
  /** Fingerprint of the code that ran it last. */
  code_fingerprint: optional(v.string()),
  /** The schedule that started it, and the planned time that it is for. */
  schedule: optional(v.object({ id: v.string(), at: TimestampSchema })),
  /**
   * Set while the job is held because its record does not fit the code: its `stop_reason` is `code_changed`.
   */
  held: optional(HeldSchema),
  /** Set for a child: the job that started it. */
  parent: optional(ParentSchema),
  /** The job whose record this one started with. */
  forked_from: optional(ForkedFromSchema),
  /** Set while the job only waits and is not in memory; its status stays what it is. */
  suspended: optional(SuspendedSchema),
  /** Set for a copy of another service's job: it never runs here. */
  pulled_from: optional(PulledFromSchema),
});
export type Job = v.InferOutput<typeof JobSchema>;

/** A job as stored, with internal fields that the service needs to resume it and never shows. */
export interface StoredJob extends Omit<Job, "case_ids" | "suspended"> {
  /** The access that started it, or the job whose child it is, where that sees only what it has started. */
  access?: string | undefined;
  /** Hash of the start request, to recognize a repeated request. */
  fingerprint: string;
  /** Encrypted parameters as received; decrypted only for the handler. */
  encrypted_agent_parameters: string | null;
  /** Number of its cases; a list of their ids would be rewritten with each new case. */
  case_count: number;
  /** Cases of this job whose question is open. */
  open_questions: number;
  /**
   * Runs started so far; 0 while the job waits for its first slot. Taking a job away from its run raises it,
   * too: nothing of a run with a lower number is stored.
   */
  run_count: number;
  /** The instance that runs it; null where none does. Absent in jobs of earlier versions. */
  owner?: string | null | undefined;
  /**
   * What a run of it did last that may have ended its instance: null where it came to wait. Absent where no run was
   * watched.
   */
  doing?: { readonly run: number; readonly what: string | null } | undefined;
  /** Set while an operator has parked the job in `stopped`: it is not queued. */
  parked?: boolean | undefined;
  /**
   * Absent in jobs of earlier versions. `worked` is what counts against the time limit of its method, in milliseconds.
   * `reached` is the time that its next wait was to last to, where the clock was set back since that began.
   */
  suspended: (Suspended & { readonly worked?: number; readonly reached?: string }) | null;
  /** What its agent's `concurrency` counts it by, from its fields at the start; null where they give none. */
  concurrency_key: string | null;
  /** The same for its agent's `rateLimit`; absent where that has no key. */
  rate_key?: string | null | undefined;
  /** Value of the `Idempotency-Key` header of the start request. */
  idempotency_key: string | null;
}

/** A job with its cases, without internal fields. */
export function toJob(stored: StoredJob, case_ids: string[]): Job {
  // Field by field: copying all and removing some takes many times as long, and every response has a job.
  return {
    agent_parameters: stored.agent_parameters,
    id: stored.id,
    name: stored.name,
    agent_name: stored.agent_name,
    job_context: stored.job_context,
    job_fields: stored.job_fields,
    status: stored.status,
    payload: stored.payload,
    result: stored.result,
    error: stored.error,
    responses: stored.responses,
    finished_at: stored.finished_at,
    created_at: stored.created_at,
    updated_at: stored.updated_at,
    total_cost: stored.total_cost,
    stop_reason: stored.stop_reason,
    // Jobs of earlier versions do not have these.
    agent_version: stored.agent_version ?? null,
    code_fingerprint: stored.code_fingerprint ?? null,
    schedule: stored.schedule ?? null,
    held: stored.held ?? null,
    parent: stored.parent ?? null,
    forked_from: stored.forked_from ?? null,
    suspended: toSuspended(stored.suspended),
    pulled_from: stored.pulled_from ?? null,
    case_ids,
    ...(stored.tags && { tags: stored.tags }),
  };
}
