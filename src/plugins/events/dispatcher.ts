import type { Logger } from "../../core/base/log.ts";
import type { Redactor } from "../../core/base/redactor.ts";
import { DeliveryError, type DeliveryTarget } from "../../core/delivery/events.ts";
import { backoff } from "./breaker.ts";
import type { LaneClaims } from "./lane-claims.ts";
import type { ResolvedEventsOptions } from "./options.ts";
import type { Outbox } from "./outbox.ts";
import type { OutboxRow } from "./outbox-table.ts";
import { Receiver } from "./receiver.ts";

/** Messages of a lane that are read per batch. */
const BATCH = 50;
/** Attempts before age makes a dead letter: a service that was off for a week still tries. */
const FEWEST_ATTEMPTS = 8;
/** Milliseconds between two looks for messages that other instances have stored, and nobody sends. */
const POLL = 5000;

interface Lane {
  readonly key: string;
  readonly receiver: Receiver;
  /** Something was stored since it was last read. */
  woken: boolean;
  busy: boolean;
}

export interface DispatcherParts {
  readonly outbox: Outbox;
  /** Which lanes are this instance's, where several share the store. */
  readonly claims?: LaneClaims | undefined;
  /** Tells the other instances that something was stored in a lane that one of them has. */
  readonly tell?: ((lane: string) => void) | undefined;
  readonly options: ResolvedEventsOptions;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: Logger;
  readonly headersFor: (stream: string) => Promise<Readonly<Record<string, string>>>;
}

/**
 * Sends waiting messages: in order within a lane, several lanes concurrently, never faster than a receiver
 * can handle.
 */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #receivers = new Map<string, Receiver>();
  readonly #lanes = new Map<string, Lane>();
  readonly #ready = new Set<Lane>();
  readonly #working = new Set<Promise<void>>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #stop = new AbortController();

  constructor(parts: DispatcherParts & { readonly poll?: number }) {
    this.#parts = parts;
    if (parts.claims) this.#every(parts.poll ?? POLL, () => this.#load());
  }

  get receivers(): Iterable<Receiver> {
    return this.#receivers.values();
  }

  /** Adds a target and sends what is waiting for it. */
  add(target: DeliveryTarget): void {
    if (this.#receivers.has(target.name)) throw new Error(`Target "${target.name}" already exists`);
    const { options, random } = this.#parts;
    this.#receivers.set(target.name, new Receiver(target, { ...options.breaker, random }));
    void this.#load();
  }

  /** Something was stored in a lane. */
  wake(key: string): void {
    const lane = this.#lanes.get(key) ?? this.#open(key);
    if (!lane) return;
    lane.woken = true;
    this.#queue(lane);
  }

  /** Another instance has stored something in a lane, which may be one of those that this one sends. */
  hear(key: string): void {
    if (this.#lanes.has(key)) this.wake(key);
  }

  /** Lets deliveries in progress finish, for `grace` milliseconds. */
  async close(grace: number): Promise<void> {
    this.#stop.abort();
    for (const timer of this.#timers) clearTimeout(timer);
    for (const { timer } of this.#receivers.values()) clearTimeout(timer);
    const late = new Promise<void>((resolve) => setTimeout(resolve, grace).unref());
    await Promise.race([Promise.all(this.#working), late]);
    const { outbox, claims, log } = this.#parts;
    const isSettled = await Promise.race([outbox.settle(), late]);
    if (!claims || !isSettled) return;
    const released = claims.releaseAll().catch((error: unknown) => {
      log.debug("the claims of messages end by themselves: they could not be released", { error });
    });
    await Promise.race([released, late]);
  }

  /** Sends what is waiting and nobody sends. */
  async #load(): Promise<void> {
    const { outbox, claims, log } = this.#parts;
    try {
      const lanes = await outbox.lanes();
      const taken = await claims?.ofOthers();
      for (const lane of lanes) if (!this.#lanes.has(lane) && !taken?.has(lane)) this.wake(lane);
    } catch (error) {
      log.error("the waiting messages cannot be read", { error });
      if (!claims) this.#later(5000, () => void this.#load());
    }
  }

  #open(key: string): Lane | undefined {
    const receiver = this.#receivers.get(key.slice(0, key.indexOf("|")));
    if (!receiver) return undefined;
    const lane: Lane = { key, receiver, woken: true, busy: false };
    this.#lanes.set(key, lane);
    return lane;
  }

  #queue(lane: Lane): void {
    if (lane.busy || lane.receiver.parked.has(lane.key)) return;
    this.#ready.add(lane);
    this.#pump();
  }

  #pump(): void {
    for (const lane of this.#ready) {
      if (this.#stop.signal.aborted || this.#working.size >= this.#parts.options.concurrency) return;
      this.#ready.delete(lane);
      lane.busy = true;
      const work = this.#work(lane).finally(() => {
        this.#working.delete(work);
        this.#pump();
      });
      this.#working.add(work);
    }
  }

  async #work(lane: Lane): Promise<void> {
    let wait: number | undefined;
    try {
      wait = await this.#sendSome(lane);
    } catch (error) {
      this.#parts.log.error("messages cannot be read or written", { lane: lane.key, error });
      wait = 1000;
    }
    if (wait === undefined) {
      lane.busy = false;
      if (this.#lanes.get(lane.key) === lane) this.#queue(lane);
      return;
    }
    // Stays busy, so that nothing wakes it before its time.
    this.#later(wait, () => {
      lane.busy = false;
      this.#queue(lane);
    });
  }

  /** Sends the next messages; resolves with how long to wait if one failed. */
  async #sendSome(lane: Lane): Promise<number | undefined> {
    const { outbox, claims } = this.#parts;
    lane.woken = false;
    if (claims && !claims.has(lane.key) && !(await claims.take(lane.key))) {
      this.#lanes.delete(lane.key);
      this.#parts.tell?.(lane.key);
      this.#resumeAfterPause(lane.receiver);
      return undefined;
    }
    const rows = await outbox.head(lane.key, BATCH);
    if (rows.length === 0) {
      // A forgotten lane is read from its start again: delivered messages must be removed by then.
      const settled = await outbox.settle();
      if (!lane.woken) {
        if (!settled) return 1000;
        await claims?.release(lane.key);
        if (!lane.woken) this.#lanes.delete(lane.key);
      }
      // It may have been chosen as the probe; then another one must be.
      this.#resumeAfterPause(lane.receiver);
      return undefined;
    }
    for (const row of rows) {
      if (this.#stop.signal.aborted) return undefined;
      // Another instance may have it by now, and may have sent the rest.
      if (claims && !claims.has(lane.key)) return undefined;
      if (!lane.receiver.breaker.enter(this.#now)) {
        this.#park(lane);
        return undefined;
      }
      const error = await this.#attempt(lane.receiver, row);
      if (error && this.#stop.signal.aborted) return undefined;
      const wait = error ? await this.#fail(lane, row, error) : this.#succeed(lane, row);
      if (wait !== undefined) return wait;
      if (lane.receiver.parked.has(lane.key)) return undefined;
    }
    return undefined;
  }

  async #attempt(receiver: Receiver, row: OutboxRow): Promise<DeliveryError | undefined> {
    const timeout = AbortSignal.timeout(this.#parts.options.timeout);
    try {
      await receiver.target.send({
        idempotencyKey: row.event_id,
        stream: row.stream,
        // A secret may have become known since it was stored.
        body: this.#parts.redactor.json(row.body),
        createdAt: row.created_at,
        attempts: row.attempts,
        headers: await this.#parts.headersFor(row.stream),
        signal: AbortSignal.any([timeout, this.#stop.signal]),
      });
      return undefined;
    } catch (error) {
      if (error instanceof DeliveryError) return error;
      return new DeliveryError(error instanceof Error ? error.message : String(error), { cause: error });
    }
  }

  #succeed(lane: Lane, row: OutboxRow): undefined {
    const { receiver } = lane;
    receiver.delivered++;
    this.#parts.outbox.delivered(row);
    const paused = receiver.breaker.pausedUntil !== undefined;
    receiver.breaker.succeed();
    if (receiver.breaker.pausedUntil !== undefined) return;
    if (paused) this.#parts.log.info("deliveries work again", { target: receiver.target.name });
    this.#release(receiver);
  }

  async #fail(lane: Lane, row: OutboxRow, error: DeliveryError): Promise<number | undefined> {
    const { outbox, options, log, random } = this.#parts;
    const { receiver } = lane;
    const target = receiver.target.name;
    receiver.lastError = this.#parts.redactor.text(error.message);
    const old = this.#now - Date.parse(row.created_at) > options.maxAge;
    const dead = error.permanent || (old && row.attempts + 1 >= FEWEST_ATTEMPTS);
    const paused = receiver.breaker.pausedUntil !== undefined;
    // A receiver that refuses one message is reachable.
    if (error.permanent) receiver.breaker.succeed();
    else receiver.breaker.fail(this.#now, error.retryAfter);
    if (receiver.breaker.pausedUntil === undefined) this.#release(receiver);
    else if (!paused) log.warn("messages are waiting: deliveries fail", { target, reason: error.message });
    await outbox.failed(row, error, dead ? "dead" : "waiting");
    if (dead) {
      log.error("a message became a dead letter", {
        target,
        message: row.id,
        type: row.type,
        reason: error.message,
      });
      return undefined;
    }
    if (receiver.breaker.pausedUntil === undefined) {
      const wait = backoff(row.attempts, { ...options.backoff, random });
      // Until then nobody sends.
      await this.#parts.claims?.take(lane.key, { longer: wait });
      return wait;
    }
    this.#park(lane);
    return undefined;
  }

  /** Keeps a lane until its receiver's pause is over. */
  #park(lane: Lane): void {
    const { receiver } = lane;
    receiver.parked.add(lane.key);
    this.#resumeAfterPause(receiver);
  }

  #resumeAfterPause(receiver: Receiver): void {
    if (receiver.parked.size === 0 || receiver.timer || this.#stop.signal.aborted) return;
    const wait = Math.max((receiver.breaker.pausedUntil ?? 0) - this.#now, 10);
    receiver.timer = setTimeout(() => {
      receiver.timer = undefined;
      this.#probe(receiver);
    }, wait);
    receiver.timer.unref();
  }

  /** Tries one lane; the others stay parked until it succeeds. */
  #probe(receiver: Receiver): void {
    for (const key of receiver.parked) {
      receiver.parked.delete(key);
      this.wake(key);
      return;
    }
  }

  #release(receiver: Receiver): void {
    if (receiver.parked.size === 0) return;
    const parked = [...receiver.parked];
    receiver.parked.clear();
    clearTimeout(receiver.timer);
    receiver.timer = undefined;
    for (const key of parked) this.wake(key);
  }

  #later(wait: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (!this.#stop.signal.aborted) run();
    }, wait);
    timer.unref();
    this.#timers.add(timer);
  }

  #every(pause: number, run: () => Promise<void>): void {
    this.#later(pause, () => void run().finally(() => this.#every(pause, run)));
  }

  get #now(): number {
    return this.#parts.clock().getTime();
  }
}
