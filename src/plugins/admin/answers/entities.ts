import * as v from "valibot";
import { LOG_LEVELS } from "../../../core/base/log.ts";
import { AttentionSchema } from "../../../core/models/attention.ts";
import { CaseSchema } from "../../../core/models/case.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { JobSchema } from "../../../core/models/job.ts";
import { ShownStateSchema } from "../../../core/models/job-state.ts";
import { EntityIdSchema, optional } from "../../../core/models/scalars.ts";

/** A page of a list. */
export function pageOf<S extends v.GenericSchema>(item: S) {
  return v.object({
    items: v.array(item),
    total: v.number(),
    limit: v.number(),
    skip: v.number(),
    has_next: v.boolean(),
    has_prev: v.boolean(),
    /** `after` of the next page, where the list has cursors. */
    next_cursor: v.optional(v.nullable(v.string())),
  });
}

const SHARED = ["id", "name", "status", "created_at", "updated_at", "finished_at", "total_cost"] as const;

/** A job in a list. */
export const JobRowSchema = v.object({
  ...v.pick(JobSchema, [...SHARED, "agent_name", "stop_reason", "error", "agent_version"]).entries,
  /** What it does, as people mean it. */
  state: v.picklist([...ShownStateSchema.options, "stuck"]),
  case_count: v.number(),
  /** Cases that failed: a completed job may have some. */
  failed_cases: v.number(),
  /** Names the reason why it failed: the same for all jobs that failed for that reason. */
  failure: v.nullable(v.string()),
  /** Runs started so far. */
  run_count: v.number(),
  tags: v.array(v.string()),
  started_by: v.string(),
});

const DELETED = {
  deleted_at: v.string(),
  deleted_by: v.nullable(v.string()),
  /** `null`: indefinitely. */
  restorable_until: v.nullable(v.string()),
};

/** Deleted jobs that can be restored. */
export const DeletedJobsSchema = pageOf(
  v.object({
    ...v.pick(JobSchema, ["id", "name", "agent_name", "status", "created_at", "finished_at"]).entries,
    ...DELETED,
  }),
);

/** Cases that were deleted alone and can be restored. */
export const DeletedCasesSchema = pageOf(
  v.object({
    ...v.pick(CaseSchema, ["id", "name", "job_id", "status", "created_at", "finished_at"]).entries,
    ...DELETED,
  }),
);

/** A case in a list. */
export const CaseRowSchema = v.object({
  ...v.pick(CaseSchema, [...SHARED, "description", "job_id"]).entries,
  update_count: v.number(),
  error: v.nullable(v.string()),
});

const ComparedCallSchema = v.nullable(
  v.object({
    /** Names it in the address of its job's page. */
    step: v.string(),
    status: v.picklist(["completed", "failed", "open"]),
    /** Milliseconds, of an open one until the end of its run; `null` while that runs. */
    duration: v.nullable(v.number()),
    cost: v.number(),
    attempts: v.number(),
    input: v.unknown(),
    output: v.unknown(),
    error: v.nullable(v.string()),
  }),
);

/** Two jobs, and the calls of their last runs in pairs. */
export const ComparisonSchema = v.object({
  left: JobRowSchema,
  right: v.nullable(JobRowSchema),
  calls: v.array(
    v.object({
      case_name: v.nullable(v.string()),
      name: v.string(),
      kind: v.string(),
      /** What differs, durations and costs aside. */
      differs: v.array(v.picklist(["missing", "status", "attempts", "input", "output", "error"])),
      left: ComparedCallSchema,
      right: ComparedCallSchema,
    }),
  ),
});

/** What a job has logged, oldest first. */
export const JobLogSchema = v.object({
  items: v.array(
    v.object({ time: v.string(), level: v.picklist(LOG_LEVELS), message: v.string(), fields: v.string() }),
  ),
});

/** A job with all its cases. */
export const JobWithCasesSchema = v.object({ ...JobSchema.entries, cases: v.array(CaseSchema) });

/** An open question. */
export const InboxItemSchema = v.object({
  case_id: EntityIdSchema,
  ...v.pick(CaseSchema, ["job_id", "name", "description", "question"]).entries,
});

/** The same, only with when it was asked. */
export const InboxEntrySchema = v.object({ case_id: EntityIdSchema, asked_at: v.nullable(v.string()) });

/** What a person has decided about a reason; null where it is open. */
export const FailureMarkSchema = v.nullable(
  v.object({
    state: v.picklist(["resolved", "muted"]),
    by: v.string(),
    at: v.string(),
    /** When the last job failed that is resolved. */
    until: v.nullable(v.string()),
  }),
);

/** Jobs that failed for one reason, the most frequent first. */
export const FailuresSchema = v.object({
  items: v.array(
    v.object({
      failure: v.string(),
      /** First line of the error of the newest one. */
      error: v.string(),
      stop_reason: v.nullable(v.string()),
      /** Where a limit ended them: the highest of the newest ones. */
      limit: v.nullable(v.number()),
      count: v.number(),
      /** When the first and the last of them ended, ISO 8601. */
      first_at: v.nullable(v.string()),
      last_at: v.nullable(v.string()),
      agents: v.array(v.object({ agent: v.string(), version: v.nullable(v.string()) })),
      /** Jobs that failed in each part of the time, the oldest first. */
      trend: v.optional(v.array(v.number())),
      /** Whether it is new in the last 24 hours, grows, or came back after it was resolved. */
      state: v.optional(v.nullable(v.picklist(["new", "grows", "returned"]))),
      /** What a person has decided about it: `resolved` until a job fails for it again, or `muted`. */
      mark: v.optional(FailureMarkSchema),
    }),
  ),
  /** Failed jobs, of all reasons. */
  total: v.number(),
  /** Reasons, of which `items` has the most frequent ones. */
  reasons: v.number(),
});

export const AnsweredSchema = v.object({
  message: v.string(),
  id: EntityIdSchema,
  status: EntityStatusSchema,
});

/** Milliseconds since the epoch. */
const moment = v.number();
const SpanSchema = v.object({
  kind: v.picklist(["work", "queued", "waiting", "sleeping", "failed", "interrupted"]),
  from: moment,
  to: moment,
  note: v.optional(v.string()),
});

/** What happened to a job, as rows on one time axis. */
export const TimelineSchema = v.object({
  from: moment,
  to: moment,
  rows: v.array(
    v.object({
      kind: v.picklist(["job", "case", "step", "question", "sleep", "child", "event"]),
      name: v.string(),
      case_id: v.optional(EntityIdSchema),
      /** Names the call in `?step=` of the job's page; absent for the job and its cases. */
      step: v.optional(v.string()),
      /** What a step says that it does. */
      work: v.optional(v.picklist(["model", "tool", "retrieval", "person"])),
      from: moment,
      to: moment,
      spans: v.array(SpanSchema),
      /** Moments on the line, such as updates. */
      moments: v.array(v.object({ at: moment, note: v.string() })),
      running: v.boolean(),
      /** Whether its run ended before it did. */
      unfinished: v.optional(v.boolean()),
      failed: v.boolean(),
      attempts: v.number(),
      cost: v.number(),
      error: v.optional(v.string()),
    }),
  ),
  interruptions: v.number(),
  /** Milliseconds in which the service was down. */
  downtime: v.number(),
  /** Milliseconds that the job waited for people. */
  waited: v.number(),
});

/** An action on many entities: its effect, and its progress. */
export const BulkSchema = v.object({
  id: v.pipe(v.string(), v.uuid()),
  kind: v.picklist(["jobs", "cases"]),
  action: v.picklist(["stop", "retry", "continue", "restart", "resume", "delete", "restore"]),
  /** The limits that the jobs get with "resume". */
  limits: v.optional(v.record(v.string(), v.number())),
  hash: v.string(),
  cost: v.number(),
  by: v.string(),
  state: v.picklist(["preview", "running", "done", "aborted"]),
  done: v.number(),
  count: v.number(),
  left_out: v.number(),
  created_at: v.string(),
  sample: v.array(EntityIdSchema),
  /** Ids that could not be changed, with the reason. */
  failures: v.record(v.string(), v.string()),
});

const ChangeSchema = v.pick(JobSchema, ["id", "name", "status", "created_at", "updated_at"]);

/** A recently changed job or case. */
export const RecentSchema = v.variant("type", [
  v.object({ type: v.literal("job"), ...ChangeSchema.entries, agent_name: v.string() }),
  v.object({ type: v.literal("case"), ...ChangeSchema.entries, job_id: EntityIdSchema }),
]);

/** Jobs or cases by status. */
const CountsSchema = v.object({
  total: v.number(),
  running: v.number(),
  completed: v.number(),
  failed: v.number(),
  by_status: v.record(v.string(), v.number()),
});

export const StatsSchema = v.object({
  jobs: CountsSchema,
  cases: CountsSchema,
  system: v.object({
    database: v.string(),
    status: v.picklist(["healthy", "unhealthy"]),
    collections: v.number(),
  }),
  collections: optional(v.number()),
});

export const DashboardSchema = v.object({
  ...StatsSchema.entries,
  recent_activity: v.array(RecentSchema),
  /**
   * What all agents have spent since midnight, and since the first of the month, UTC; of who sees a part, what jobs have
   * cost that were created since then.
   */
  cost_today: v.number(),
  cost_month: v.number(),
  /** What the month will have cost, if it continues as in the last seven days; null in the first day, and for who sees a part. */
  cost_forecast: v.nullable(v.number()),
  /** Jobs by the hour in which they were created, oldest hour first. */
  hours: v.array(
    v.object({
      from: moment,
      counts: v.object({ completed: v.number(), failed: v.number(), running: v.number() }),
    }),
  ),
  /** What agents have spent of their budgets, in this day and month, UTC. */
  budgets: v.array(
    v.object({
      agent: v.string(),
      period: v.picklist(["day", "month"]),
      since: v.string(),
      budget: v.number(),
      spent: v.number(),
      refuses: v.boolean(),
    }),
  ),
  /** What needs a person, the most urgent first. */
  attention: AttentionSchema.entries.items,
  /** Over the time `range`; computed at most every ten seconds, over days every minute. */
  well: v.object({
    range: v.picklist(["1h", "24h", "7d", "30d"]),
    /** Jobs that ended in it. */
    completed: v.number(),
    failed: v.number(),
    /**
     * Milliseconds that half of the completed jobs took at most, and 95 of 100; `null` where none was completed. Of more
     * than 5000 jobs, they have two digits.
     */
    p50: v.nullable(v.number()),
    p95: v.nullable(v.number()),
    /** Jobs by when they were created, oldest first. */
    columns: v.array(
      v.object({
        from: moment,
        counts: v.object({
          completed: v.number(),
          failed: v.number(),
          cancelled: v.number(),
          /** Those that have not ended. */
          running: v.number(),
        }),
      }),
    ),
    /** Why jobs failed in it, the most frequent reasons first. */
    failures: FailuresSchema.entries.items,
    /** What agents have spent on the days of it, UTC, the dearest first; with the number of jobs of these days. */
    costs: v.array(v.object({ agent: v.string(), cost: v.number(), jobs: v.number() })),
  }),
});
