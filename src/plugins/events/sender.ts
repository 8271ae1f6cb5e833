import type { TargetHealth } from "../../core/delivery/control-system.ts";
import type { DeliveryTarget } from "../../core/delivery/events.ts";
import { makeRoom } from "../../core/http/attempts.ts";
import type { BreakerOptions } from "./breaker.ts";
import { Receiver } from "./receiver.ts";
import { Turns } from "./turns.ts";

/** Duration of an attempt from which a receiver is slow, milliseconds. */
const SLOW = 2000;
/** Places that a party of receivers has at the same time, of each kind. */
const MOST_OF_PARTY = 4;

/** What is known of a receiver: those that hold a place for long wait for each other only. */
type Pace = "quick" | "new" | "slow";

/** What takes turns: a lane. */
export interface Sent {
  readonly receiver: Receiver;
  /** Who its receiver belongs to. */
  party: string;
  /** How long its last attempt took, if there was one. */
  pace: Pace | undefined;
}

/**
 * Who sends to one target: its places, in which nobody else's messages wait, and how its deliveries are. Where callers
 * name the receivers, each lane has one of its own, and those that are slow cannot take the places of the others.
 */
export class Sender<T extends Sent> {
  readonly target: DeliveryTarget;
  readonly #breaker: BreakerOptions;
  readonly #shared: Receiver | undefined;
  readonly #places: Readonly<Record<Pace, Turns<T>>>;
  /** By party. */
  readonly #paces = new Map<string, Pace>();
  /** Receivers of their own lane that nothing is sent to for a while. */
  readonly #paused = new Set<Receiver>();
  #delivered = 0;
  #lastError: string | undefined;

  constructor(target: DeliveryTarget, { breaker, places }: { breaker: BreakerOptions; places: number }) {
    this.target = target;
    this.#breaker = breaker;
    if (target.receivers === undefined) {
      this.#shared = new Receiver(breaker);
      const all = new Turns<T>(places);
      this.#places = { quick: all, new: all, slow: all };
      return;
    }
    this.#places = {
      quick: new Turns(2 * places, MOST_OF_PARTY),
      new: new Turns(places, MOST_OF_PARTY),
      slow: new Turns(places, MOST_OF_PARTY),
    };
  }

  /** The receiver of a new lane. */
  receiver(): Receiver {
    return this.#shared ?? new Receiver(this.#breaker);
  }

  /** A lane waits for its turn. */
  add(lane: T): void {
    const pace = lane.pace ?? this.#paces.get(lane.party) ?? "new";
    this.#places[pace].add(lane.party, lane);
  }

  /** Takes a place for the lane whose turn it is. */
  take(): { readonly item: T; readonly leave: () => void } | undefined {
    const { quick, new: untried, slow } = this.#places;
    return quick.take() ?? (this.#shared ? undefined : (untried.take() ?? slow.take()));
  }

  /** Notes how long an attempt took, milliseconds. */
  noteDuration(lane: T, duration: number): void {
    if (this.#shared) return;
    lane.pace = duration < SLOW ? "quick" : "slow";
    makeRoom(this.#paces, lane.party);
    this.#paces.set(lane.party, lane.pace);
  }

  /** Notes the outcome of an attempt; returns whether deliveries to the target were fine before, and are now. */
  noteOutcome(receiver: Receiver, error?: string): { readonly before: boolean; readonly now: boolean } {
    if (error === undefined) this.#delivered++;
    else this.#lastError = error;
    const before = this.#paused.size === 0;
    if (receiver.breaker.pausedUntil === undefined) this.#paused.delete(receiver);
    else this.#paused.add(receiver);
    return { before, now: this.#paused.size === 0 };
  }

  /** A lane has ended. */
  forget(lane: T): void {
    if (!this.#shared) this.#paused.delete(lane.receiver);
  }

  get delivered(): number {
    return this.#delivered;
  }

  health(): TargetHealth {
    const about = { name: this.target.name, delivered: this.#delivered };
    if (this.#shared) return { ...about, last_error: this.#lastError ?? null, ...this.#shared.health() };
    const failures = [...this.#paused].map(({ breaker }) => breaker.failures);
    const ends = [...this.#paused].flatMap(({ breaker }) => breaker.pausedUntil ?? []);
    const isFine = failures.length === 0;
    return {
      ...about,
      state: isFine ? "ok" : "failing",
      failures_in_a_row: Math.max(0, ...failures),
      last_error: isFine ? (this.#lastError ?? null) : `${failures.length} receivers: ${this.#lastError}`,
      retry_at: ends.length === 0 ? null : new Date(Math.min(...ends)).toISOString(),
    };
  }
}
