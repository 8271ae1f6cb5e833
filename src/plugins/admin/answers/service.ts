import * as v from "valibot";
import { KEPT_STATUSES } from "../../../core/agents/retention-policy.ts";
import { LOG_LEVELS } from "../../../core/base/log.ts";
import { OutboxMessageSchema } from "../../../core/delivery/control-system.ts";
import { AgentHealthSchema } from "../../../core/http/machine/health.ts";
import { AgentResponseSchema } from "../../../core/models/agent-response.ts";
import { ReceivedEventSchema } from "../../../core/models/received-event.ts";
import { ScheduleSchema } from "../../../core/models/schedule.ts";
import { ServerInfoSchema } from "../../../core/models/server-info.ts";
import { pageOf } from "./entities.ts";

const value = v.nullable(v.union([v.string(), v.number(), v.boolean()]));

/** Since when an agent starts no new jobs, and who paused it. */
export const PausedSchema = v.object({ at: v.string(), by: v.string() });

/** An agent with its job statistics; its stored parameters are not shown. */
export const AgentSchema = v.object({
  ...v.omit(AgentResponseSchema, ["server_encrypted_parameters"]).entries,
  ...v.pick(AgentHealthSchema, ["status", "statistics"]).entries,
  paused: v.nullable(PausedSchema),
});

/** Lines of the log, oldest first. */
export const ConsoleSchema = v.object({
  items: v.array(
    v.object({
      seq: v.number(),
      time: v.string(),
      level: v.picklist(LOG_LEVELS),
      message: v.string(),
      /** The line's fields as text. */
      fields: v.string(),
      job: v.optional(v.string()),
    }),
  ),
  /** Number of the newest line. */
  last: v.number(),
  /** Whose lines they are, where several instances share the store. */
  instance: v.nullable(v.string()),
});

export const DeliveriesSchema = pageOf(OutboxMessageSchema);

/** Events that were sent to the service, newest first. */
export const EventsSchema = pageOf(ReceivedEventSchema);

/** Calls of jobs that wait for an event. */
export const EventWaitsSchema = pageOf(
  v.object({
    name: v.string(),
    job_id: v.string(),
    /** Fields of the event's data that must have a value that the job gave. */
    where: v.array(v.string()),
    /** Later events do not count. */
    until: v.nullable(v.string()),
  }),
);

/** The schedules, in the order in which the service declares them. */
export const SchedulesSchema = v.object({ items: v.array(ScheduleSchema) });

const kept = v.nullable(v.number());
/** Milliseconds that jobs are kept after their end; `null` means indefinitely. */
const PolicySchema = v.object({ completed: kept, failed: kept, cancelled: kept });
const StatusSchema = v.picklist(KEPT_STATUSES);

/** How long jobs are kept, and what was removed. */
export const RetentionSchema = v.object({
  policy: PolicySchema,
  /** The agents' own. */
  agents: v.record(v.string(), PolicySchema),
  /** What is removed next, by agent, status and, where these keep jobs for a time of their own, workspaces. */
  due: v.array(
    v.object({
      agent: v.string(),
      status: StatusSchema,
      /** Null for all. */
      workspaces: v.nullable(v.array(v.string())),
      jobs: v.number(),
      before: v.string(),
      oldest: v.string(),
    }),
  ),
  /** Total removed since `since`, and the last batch. */
  removed: v.nullable(
    v.object({
      at: v.string(),
      jobs: v.number(),
      cases: v.number(),
      since: v.string(),
      last: v.object({
        agent: v.string(),
        status: StatusSchema,
        jobs: v.number(),
        cases: v.number(),
        oldest: v.string(),
        newest: v.string(),
      }),
    }),
  ),
});

/** The service itself. */
export const ServiceSchema = v.object({
  info: ServerInfoSchema,
  /** Seconds. */
  uptime: v.number(),
  /** Memory in bytes. */
  process: v.object({ pid: v.number(), node: v.string(), rss: v.number(), heap_used: v.number() }),
  configuration: v.record(v.string(), value),
  store: v.object({
    database: v.string(),
    tables: v.record(v.string(), v.number()),
    bytes: v.optional(v.number()),
    reads: v.number(),
    writes: v.number(),
    details: v.optional(v.record(v.string(), value)),
    health: v.object({
      writable: v.boolean(),
      error: v.optional(v.string()),
      /** How far a storage is behind the disk, where the store is shipped to one. */
      shipping: v.optional(
        v.object({
          /** Seconds since the oldest write that is not there. */
          lag: v.number(),
          groups: v.number(),
          bytes: v.number(),
          last_at: v.nullable(v.string()),
          error: v.nullable(v.string()),
          restored: v.nullable(v.object({ as_of: v.nullable(v.string()), may_lack: v.boolean() })),
          set_aside: v.array(v.string()),
        }),
      ),
    }),
  }),
  plugins: v.array(
    v.object({
      name: v.string(),
      dependsOn: v.array(v.string()),
      /** Milliseconds. */
      setupTime: v.number(),
    }),
  ),
  /** The living instances, where several share the store. */
  instances: v.array(
    v.object({
      id: v.string(),
      /** Whether it is the one that answers. */
      current: v.boolean(),
      host: v.string(),
      /** `slug@version` of the agents that it hosts. */
      agents: v.array(v.string()),
      running: v.number(),
      places: v.number(),
      started_at: v.string(),
      /** By the store's clock. */
      seen_at: v.string(),
      seconds_since: v.number(),
    }),
  ),
  /** Backups of the store, where they are made; times in seconds. */
  backup: v.nullable(
    v.object({
      last: v.nullable(v.object({ made_at: v.string(), bytes: v.number() })),
      lag: v.nullable(v.number()),
      every: v.number(),
      error: v.nullable(v.string()),
    }),
  ),
  live: v.object({ open_pages: v.number() }),
  retention: RetentionSchema,
  schedules: v.array(ScheduleSchema),
  control_system: v.nullable(
    v.object({
      status: v.string(),
      label: v.optional(v.string()),
      facts: v.array(v.object({ name: v.string(), value: v.string(), tone: v.optional(v.string()) })),
      alert: v.optional(v.string()),
    }),
  ),
});
