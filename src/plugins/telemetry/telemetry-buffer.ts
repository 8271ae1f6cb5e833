import { delays } from "../../core/base/backoff.ts";
import type { Telemetry } from "../../core/models/telemetry.ts";

/** Items sent per batch. */
const CONCURRENCY = 4;
const LONGEST_PAUSE = 60_000;
const CLOSE_GRACE = 2000;

export interface TelemetryBufferParts {
  /** Maximum number of queued items. */
  readonly size: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly send: (telemetry: Telemetry) => Promise<void>;
  readonly onFailure: (error: unknown) => void;
  /** Milliseconds that sending gets when the service closes. @default 2000 */
  readonly closeGrace?: number;
}

/**
 * Telemetry that may be lost: kept in memory, sent every few seconds, the oldest dropped if there is too
 * much.
 */
export class TelemetryBuffer {
  readonly #parts: TelemetryBufferParts;
  readonly #delays: (failures: number) => number;
  #waiting: Telemetry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #failures = 0;
  #dropped = 0;

  constructor(parts: TelemetryBufferParts) {
    this.#parts = parts;
    this.#delays = delays({ first: parts.interval, most: Math.max(parts.interval, LONGEST_PAUSE) });
  }

  get dropped(): number {
    return this.#dropped;
  }

  add(telemetry: Telemetry): void {
    this.#waiting.push(telemetry);
    if (this.#waiting.length > this.#parts.size) {
      const surplus = Math.ceil(this.#parts.size / 10);
      this.#waiting.splice(0, surplus);
      this.#dropped += surplus;
    }
    this.#schedule();
  }

  /** Sends what is queued, once; what cannot be sent is dropped. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { closeGrace = CLOSE_GRACE } = this.#parts;
    await within(closeGrace, this.#sendLast());
    this.#dropped += this.#waiting.length;
    this.#waiting = [];
  }

  async #sendLast(): Promise<void> {
    await this.#sending;
    if (this.#failures === 0) await this.#sendAll();
  }

  #schedule(): void {
    if (this.#timer || this.#sending || this.#waiting.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#sending = this.#sendAll().finally(() => {
        this.#sending = undefined;
        this.#schedule();
      });
    }, this.#delays(this.#failures));
    this.#timer.unref();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const some = this.#waiting.splice(0, CONCURRENCY);
      const results = await Promise.allSettled(some.map((one) => this.#parts.send(one)));
      const failed = results.findIndex(({ status }) => status === "rejected");
      if (failed < 0) {
        this.#failures = 0;
        continue;
      }
      // One attempt each: late telemetry is worth little, and new telemetry waits behind it.
      this.#dropped += results.filter(({ status }) => status === "rejected").length;
      if (this.#failures++ === 0) this.#parts.onFailure((results[failed] as PromiseRejectedResult).reason);
      return;
    }
  }
}

/** Resolves with `work`, or with `undefined` after `milliseconds`; a later result is ignored. */
export function within<T>(milliseconds: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, milliseconds, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
