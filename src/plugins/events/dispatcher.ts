import { messageOf } from "../../core/base/error-text.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Redactor } from "../../core/base/redactor.ts";
import type { StartTimer } from "../../core/base/timer.ts";
import { WallTimers } from "../../core/base/wall-timers.ts";
import { DeliveryError, type DeliveryTarget } from "../../core/delivery/events.ts";
import { backoff } from "./breaker.ts";
import type { LaneClaims } from "./lane-claims.ts";
import type { ResolvedEventsOptions } from "./options.ts";
import type { Outbox } from "./outbox.ts";
import { addressOf, type OutboxRow, readLane } from "./outbox-table.ts";
import type { Receiver } from "./receiver.ts";
import { Sender, type Sent } from "./sender.ts";

/** Messages of a lane that are read per batch. */
const BATCH = 50;
/** Attempts before age makes a dead letter: a service that was off for a week still tries. */
const FEWEST_ATTEMPTS = 8;
/** Milliseconds between two looks for messages that other instances have stored, and nobody sends. */
const POLL = 5000;

/** The longest pause that a receiver gets which a caller named, milliseconds: it is not trusted. */
const LONGEST_ASKED = 5 * 60_000;

interface Lane extends Sent {
  readonly key: string;
  readonly sender: Sender<Lane>;
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
  /** By the name of their target. */
  readonly #senders = new Map<string, Sender<Lane>>();
  readonly #lanes = new Map<string, Lane>();
  readonly #working = new Set<Promise<void>>();
  readonly #timers = new Set<() => void>();
  readonly #startTimer: StartTimer;
  readonly #stop = new AbortController();

  constructor(parts: DispatcherParts & { readonly poll?: number }) {
    this.#parts = parts;
    this.#startTimer = new WallTimers(parts.clock).start;
    if (parts.claims) this.#every(parts.poll ?? POLL, () => this.#load());
  }

  get senders(): Iterable<Sender<Lane>> {
    return this.#senders.values();
  }

  /** Adds a target and sends what is waiting for it. */
  add(target: DeliveryTarget): void {
    if (this.#senders.has(target.name)) throw new Error(`Target "${target.name}" already exists`);
    const { options, random } = this.#parts;
    const breaker = { ...options.breaker, random };
    this.#senders.set(target.name, new Sender(target, { breaker, places: options.concurrency }));
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

  /** Work with the store that nobody waits for: it ends before the dispatcher is closed, and so before the store is. */
  during(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
    return tracked;
  }

  /** Lets deliveries and reads in progress finish, for `grace` milliseconds. */
  async close(grace: number): Promise<void> {
    this.#stop.abort();
    for (const stop of this.#timers) stop();
    for (const { receiver } of this.#lanes.values()) receiver.stopTimer?.();
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
  #load(): Promise<void> {
    return this.during(this.#wakeAll());
  }

  async #wakeAll(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const { outbox, claims, log } = this.#parts;
    try {
      const [lanes, taken] = await Promise.all([outbox.lanes(), claims?.ofOthers()]);
      for (const lane of lanes) {
        if (!this.#lanes.has(lane) && !taken?.has(lane) && !(await this.#split(lane))) this.wake(lane);
      }
    } catch (error) {
      // The store did not wait longer than the grace.
      if (this.#stop.signal.aborted) return;
      log.error("the waiting messages cannot be read", { error });
      if (!claims) this.#later(5000, () => void this.#load());
    }
  }

  /** Whether a lane was one of an earlier version, in which the receivers of a target waited for each other. */
  async #split(key: string): Promise<boolean> {
    const { target, receiver } = readLane(key);
    const { receivers } = this.#senders.get(target)?.target ?? {};
    if (!receivers || receiver !== undefined) return false;
    await this.#parts.outbox.split(key, (body) => addressOf(target, receivers.of(body)));
    this.#later(0, () => void this.#load());
    return true;
  }

  #open(key: string): Lane | undefined {
    const { target, receiver: name } = readLane(key);
    const sender = this.#senders.get(target);
    if (!sender) return undefined;
    const receivers = name === undefined ? undefined : sender.target.receivers;
    const state = { party: "", pace: undefined, woken: true, busy: receivers !== undefined };
    const lane: Lane = { key, sender, receiver: sender.receiver(), ...state };
    this.#lanes.set(key, lane);
    if (receivers) void this.#identify(lane, receivers.partyOf(name!));
    return lane;
  }

  /** Queues a lane once it is known who its receiver belongs to. */
  async #identify(lane: Lane, party: Promise<string>): Promise<void> {
    try {
      lane.party = await party;
    } catch (error) {
      this.#parts.log.debug("it is not known who a receiver belongs to", { lane: lane.key, error });
    }
    lane.busy = false;
    this.#queue(lane);
  }

  #queue(lane: Lane): void {
    if (lane.busy || lane.receiver.parked.has(lane.key)) return;
    // Waits for its turn: it is queued once.
    lane.busy = true;
    lane.sender.add(lane);
    this.#pump(lane.sender);
  }

  #pump(sender: Sender<Lane>): void {
    while (!this.#stop.signal.aborted) {
      const turn = sender.take();
      if (!turn) return;
      void this.during(
        this.#work(turn.item).finally(() => {
          turn.leave();
          this.#pump(sender);
        }),
      );
    }
  }

  #forget(lane: Lane): void {
    this.#lanes.delete(lane.key);
    lane.sender.forget(lane);
  }

  async #work(lane: Lane): Promise<void> {
    let wait: number | undefined;
    try {
      wait = await this.#sendSome(lane);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
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
      this.#forget(lane);
      this.#parts.tell?.(lane.key);
      this.#resumeAfterPause(lane.receiver);
      return undefined;
    }
    // A receiver that a caller named has its place for one message only.
    const limit = lane.sender.target.receivers ? 1 : BATCH;
    const rows = await outbox.head(lane.key, limit);
    for (const row of rows) {
      if (this.#stop.signal.aborted) return undefined;
      // Another instance may have it by now, and may have sent the rest.
      if (claims && !claims.has(lane.key)) return undefined;
      if (!lane.receiver.breaker.enter(this.#now)) {
        this.#park(lane);
        return undefined;
      }
      const error = await this.#attempt(lane, row);
      if (error && this.#stop.signal.aborted) return undefined;
      const wait = error ? await this.#fail(lane, row, error) : this.#succeed(lane, row);
      if (wait !== undefined) return wait;
      if (lane.receiver.parked.has(lane.key)) return undefined;
    }
    // What was stored since has woken it.
    return rows.length === limit || lane.woken ? undefined : this.#finish(lane);
  }

  /** Nothing is left to send; resolves with how long to wait where that is not stored. */
  async #finish(lane: Lane): Promise<number | undefined> {
    const { outbox, claims } = this.#parts;
    // A forgotten lane is read from its start again: delivered messages must be removed by then.
    const settled = await outbox.settle();
    if (!lane.woken) {
      if (!settled) return 1000;
      await claims?.release(lane.key);
      if (!lane.woken) this.#forget(lane);
    }
    // It may have been chosen as the probe; then another one must be.
    this.#resumeAfterPause(lane.receiver);
    return undefined;
  }

  async #attempt(lane: Lane, row: OutboxRow): Promise<DeliveryError | undefined> {
    const timeout = AbortSignal.timeout(this.#parts.options.timeout);
    const began = performance.now();
    try {
      await lane.sender.target.send({
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
      return new DeliveryError(messageOf(error), { cause: error });
    } finally {
      lane.sender.noteDuration(lane, performance.now() - began);
    }
  }

  #succeed(lane: Lane, row: OutboxRow): undefined {
    const { receiver } = lane;
    this.#parts.outbox.delivered(row);
    receiver.breaker.succeed();
    this.#note(lane);
    if (receiver.breaker.pausedUntil === undefined) this.#release(receiver);
  }

  async #fail(lane: Lane, row: OutboxRow, error: DeliveryError): Promise<number | undefined> {
    const { outbox, options, log, random } = this.#parts;
    const { receiver, sender } = lane;
    const target = sender.target.name;
    const old = this.#now - Date.parse(row.created_at) > options.maxAge;
    const dead = error.permanent || (old && row.attempts + 1 >= FEWEST_ATTEMPTS);
    // A receiver that refuses one message is reachable.
    if (error.permanent) receiver.breaker.succeed();
    else receiver.breaker.fail(this.#now, pauseOf(error, sender.target));
    if (receiver.breaker.pausedUntil === undefined) this.#release(receiver);
    this.#note(lane, error);
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
      const wait = backoff(options.backoff)(row.attempts, random);
      // Until then nobody sends.
      await this.#parts.claims?.take(lane.key, { longer: wait });
      return wait;
    }
    this.#park(lane);
    return undefined;
  }

  /** Notes the outcome of an attempt, and logs where it changes how deliveries to the target are. */
  #note({ sender, receiver }: Lane, error?: DeliveryError): void {
    const { log, redactor } = this.#parts;
    const target = sender.target.name;
    const { before, now } = sender.noteOutcome(receiver, error && redactor.text(error.message));
    if (now && !before) log.info("deliveries work again", { target });
    if (before && !now) {
      log.warn("messages are waiting: deliveries fail", { target, reason: error?.message ?? null });
    }
  }

  /** Keeps a lane until its receiver's pause is over. */
  #park(lane: Lane): void {
    const { receiver } = lane;
    receiver.parked.add(lane.key);
    this.#resumeAfterPause(receiver);
  }

  #resumeAfterPause(receiver: Receiver): void {
    if (receiver.parked.size === 0 || receiver.stopTimer || this.#stop.signal.aborted) return;
    receiver.stopTimer = this.#startTimer(Math.max(receiver.breaker.left(this.#now), 10), () => {
      receiver.stopTimer = undefined;
      this.#probe(receiver);
    });
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
    receiver.stopTimer?.();
    receiver.stopTimer = undefined;
    for (const key of parked) this.wake(key);
  }

  #later(wait: number, run: () => void): void {
    const stop = this.#startTimer(wait, () => {
      this.#timers.delete(stop);
      if (!this.#stop.signal.aborted) run();
    });
    this.#timers.add(stop);
  }

  #every(pause: number, run: () => Promise<void>): void {
    this.#later(pause, () => void run().finally(() => this.#every(pause, run)));
  }

  get #now(): number {
    return this.#parts.clock().getTime();
  }
}

/** The pause that a receiver has asked for. */
function pauseOf({ retryAfter }: DeliveryError, target: DeliveryTarget): number | undefined {
  if (retryAfter === undefined || !target.receivers) return retryAfter;
  return Math.min(retryAfter, LONGEST_ASKED);
}
