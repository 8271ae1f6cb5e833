import * as v from "valibot";
import type { Actor } from "../audit/caller.ts";
import { optional } from "../models/scalars.ts";

const MessageStateSchema = v.picklist(["waiting", "dead"]);
/** Whether a message is waiting, or is a dead letter. */
export type MessageState = v.InferOutput<typeof MessageStateSchema>;

/** A message in the outbox, as operators see it. */
export const OutboxMessageSchema = v.object({
  id: v.string(),
  /** The same for one event to all its targets. */
  event_id: v.string(),
  target: v.string(),
  /** Messages of one stream arrive in order: the job's id, or another name. */
  stream: v.string(),
  type: v.string(),
  state: MessageStateSchema,
  attempts: v.number(),
  /** The error of the last attempt. */
  error: optional(v.string()),
  /** HTTP status of the last response. */
  status: optional(v.number()),
  created_at: v.string(),
  failed_at: optional(v.string()),
});
export type OutboxMessage = Readonly<v.InferOutput<typeof OutboxMessageSchema>>;

/** The state of deliveries to one receiver. */
export interface TargetHealth {
  readonly name: string;
  /** `paused`: it failed repeatedly, or asked for a pause; the next attempt is at `retry_at`. */
  readonly state: "ok" | "failing" | "paused";
  readonly delivered: number;
  readonly failures_in_a_row: number;
  readonly last_error: string | null;
  readonly retry_at: string | null;
}

export interface ControlStatus {
  /** `local`: no account is set, nothing is sent to a control system. */
  readonly mode: "connected" | "local";
  readonly api_url: string | null;
  readonly workspace_id: string | null;
  readonly targets: readonly TargetHealth[];
  /** When server and agents were registered last, as far as this process knows. */
  readonly registered_at: string | null;
}

export interface ControlCounts {
  readonly waiting: number;
  readonly dead: number;
  /** Since the start of this process. */
  readonly delivered: number;
  /** Removed unsent because a limit was reached, since the start of this process. */
  readonly dropped: number;
}

/** Access of the admin interface and the command line to the link to the control system. */
export interface ControlSystem {
  status(): ControlStatus;
  counts(): Promise<ControlCounts>;
  /** Newest first. */
  list(query?: { readonly state?: MessageState; readonly limit?: number; readonly skip?: number }): Promise<{
    readonly items: OutboxMessage[];
    readonly total: number;
  }>;
  /** Sends dead letters again under the same idempotency keys, in their old places; resolves with how many. The audit log names the caller. @default the service */
  retry(ids: readonly string[] | "all", by?: Actor): Promise<number>;
  /** Removes dead letters permanently; resolves with how many. The audit log names the caller. @default the service */
  drop(ids: readonly string[] | "all", by?: Actor): Promise<number>;
  /** Registers server and agents again. */
  register(): Promise<void>;
}
