import type { MaybePromise } from "../base/maybe-promise.ts";
import type { ControlEvent } from "../models/event.ts";
import type { Transaction } from "../store/store.ts";

/** An event as passed by the caller; the account is filled in when it is sent. */
export type NewEvent = Omit<ControlEvent, "account">;

/** What a target sends. */
export interface Delivery {
  /** The same at every attempt, and for all targets of one event. */
  readonly idempotencyKey: string;
  readonly stream: string;
  /** What was passed, without secrets. */
  readonly body: unknown;
  readonly createdAt: string;
  /** Attempts before this one. */
  readonly attempts: number;
  /** Trace context of what caused it, for the receiver. */
  readonly headers: Readonly<Record<string, string>>;
  /** Fires at the time limit of an attempt. */
  readonly signal: AbortSignal;
}

/** Where messages go: the control system, webhooks, or a third party's receiver. */
export interface DeliveryTarget {
  /** Unique; 1 to 80 letters, digits, `_` or `-`. */
  readonly name: string;
  /** For a target whose receivers are named by callers of the service. @default one receiver */
  readonly receivers?: NamedReceivers;
  /** Whether it wants an event. Targets without it get only what is posted to them by name. */
  accepts?(event: NewEvent): boolean;
  /** Resolves once the receiver has it; rejects with a `DeliveryError` otherwise. */
  send(delivery: Delivery): Promise<void>;
}

/**
 * The receivers of a target, which callers of the service name, and which share nothing: each gets its messages in
 * order, has its own pauses, of five minutes at most where it asks for one, and makes no other wait.
 */
export interface NamedReceivers {
  /** The receiver of a message: letters, digits, `_` or `-`. */
  of(body: unknown): string;
  /** The receivers of a stream, inside the transaction that removes its job. */
  ofStream(stream: string, tx: Transaction): Promise<readonly string[]>;
  /** Who a receiver belongs to, such as the origin of its URL: parties take turns. */
  partyOf(receiver: string): Promise<string>;
}

/** An attempt that failed. */
export class DeliveryError extends Error {
  override readonly name = "DeliveryError";
  /** Whether a retry is pointless. */
  readonly permanent: boolean;
  readonly status: number | undefined;
  /** Milliseconds that the receiver asked for. */
  readonly retryAfter: number | undefined;

  constructor(
    message: string,
    options: { permanent?: boolean; status?: number; retryAfter?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.permanent = options.permanent ?? false;
    this.status = options.status;
    this.retryAfter = options.retryAfter;
  }
}

/** A message for one target. */
export interface PostedMessage {
  /** Messages of one stream arrive in order. */
  readonly stream: string;
  /** For display. */
  readonly type: string;
  readonly body: unknown;
}

/** Returns headers for what is sent for a stream, `undefined` if there are none. */
export type HeaderSource = (stream: string) => MaybePromise<Readonly<Record<string, string>> | undefined>;

/**
 * Reports events to the control system and webhooks. Everything is stored before it is sent, and sent in
 * order per stream.
 */
export interface Events {
  /** Stores an event for every target that wants it; resolves with its id once it is on disk. */
  emit(event: NewEvent, options?: { readonly stream?: string }): Promise<string>;
  /** The same inside a transaction, such as that of a change: both are stored or neither. */
  write(tx: Transaction, event: NewEvent, options?: { readonly stream?: string }): Promise<string>;
  /** Stores a message for one target; with `tx`, inside that transaction. */
  post(target: string, message: PostedMessage, tx?: Transaction): Promise<string>;
  /** Adds a receiver; already stored messages for it are sent too. */
  addTarget(target: DeliveryTarget): void;
  /** Adds headers, such as a trace context, to what is sent for a stream. */
  addHeaders(source: HeaderSource): void;
}
