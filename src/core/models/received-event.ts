import * as v from "valibot";
import { JsonMapSchema, TimestampSchema } from "./scalars.ts";

/** Name of an event that jobs wait for: 1 to 100 letters, digits, `.`, `_`, `-`, starting with a letter or digit. */
export const EventNameSchema = v.pipe(
  v.string(),
  v.regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    "must be 1 to 100 characters of letters, digits, '.', '_', '-', starting with a letter or digit",
  ),
);

/** The sender's id of an event: 1 to 200 characters without white space. */
export const EventKeySchema = v.pipe(
  v.string(),
  v.regex(/^[^\s/]{1,200}$/, "must be 1 to 200 characters without white space or '/'"),
);

/** An event that was sent to the service. */
export const ReceivedEventSchema = v.object({
  /** The sender's id, or one that the service made; unique among the events of its name. */
  id: EventKeySchema,
  name: EventNameSchema,
  /** When it was stored. */
  at: TimestampSchema,
  data: JsonMapSchema,
  /** Ids of the first jobs that it was given to, at most 20. */
  jobs: v.array(v.string()),
});
export type ReceivedEvent = v.InferOutput<typeof ReceivedEventSchema>;

/** An event as stored. */
export interface StoredEvent {
  /** `<name>/<the event's id>` */
  readonly id: string;
  readonly name: string;
  readonly event_id: string;
  /** Counts the events of its name from 1. */
  readonly n: number;
  readonly created_at: string;
  readonly data: Record<string, unknown>;
  /** The first jobs that it was given to; absent without any. */
  readonly jobs?: readonly string[];
}

/** An event as the service shows it. */
export function toReceivedEvent({
  event_id: id,
  name,
  created_at: at,
  data,
  jobs,
}: StoredEvent): ReceivedEvent {
  return { id, name, at, data, jobs: [...(jobs ?? [])] };
}

/** The name of events that were received or are waited for. */
export interface EventName {
  readonly id: string;
  /** Number of events received. */
  readonly count: number;
  /** When the last one was stored; empty without any. */
  readonly last_at: string;
  /** What open waits compare: for each distinct one the paths of fields, in order. */
  readonly shapes: readonly (readonly string[])[];
}

/** A call of a job that waits for an event. */
export interface EventWait {
  /** `<job id>/<generation>/<position of the call>` */
  readonly id: string;
  readonly job_id: string;
  readonly position: number;
  readonly name: string;
  /** The name and the paths that it compares. */
  readonly shape: string;
  /** The name, and a hash of the paths and their values. */
  readonly match: string;
  /** Later events do not count; ISO 8601. */
  readonly until: string | null;
  /** The stored event that it was given. */
  readonly event: string | null;
}
