import { FastResponse } from "srvx";
import type { Caller } from "../audit/caller.ts";
import type { StartTimer } from "../base/timer.ts";
import { WallTimers } from "../base/wall-timers.ts";
import { StreamShares } from "./stream-shares.ts";

/** Returns the next text to send, once the reader has received the last one; `undefined` ends the stream. */
export type StreamSource = (signal: AbortSignal) => Promise<string | undefined>;

/** A source that gives texts one by one. They are made once the first is read. */
export function sourceOf(texts: (signal: AbortSignal) => AsyncGenerator<string, void>): StreamSource {
  let open: AsyncGenerator<string, void> | undefined;
  return async (signal) => {
    open ??= texts(signal);
    const { value, done } = await open.next();
    return done ? undefined : value;
  };
}

export interface LiveStreamLimits {
  /** Milliseconds between heartbeats. @default 15000 */
  readonly heartbeat?: number;
  /** Unread heartbeats after which a reader is dropped. @default 3 */
  readonly patience?: number;
  /** Maximum number of open streams. @default 1000 */
  readonly most?: number;
  /** @default the clock of the machine */
  readonly clock?: () => Date;
}

const HEADERS: [string, string][] = [
  ["content-type", "text/event-stream; charset=utf-8"],
  ["cache-control", "no-store, no-transform"],
  // Some proxies buffer a response until it is complete.
  ["x-accel-buffering", "no"],
];

/** The reader of a stream. */
export interface StreamReader {
  /** The caller: each has a limited share, so that nobody takes the streams of others. @default a program with the API key */
  readonly caller?: Caller;
  /** Ends the stream, for example when the reader's session ends. */
  readonly over?: AbortSignal;
  /** What a heartbeat sends. @default a comment, which readers do not see */
  readonly heartbeat?: string;
}

/**
 * The open event streams of a service. A stream buffers at most one text: its source is asked again when the
 * reader has received it, so a slow reader costs no memory; one that stops reading is dropped.
 */
export class LiveStreams {
  readonly #heartbeat: number;
  readonly #patience: number;
  readonly #shares: StreamShares;
  readonly #clock: () => Date;
  readonly #startTimer: StartTimer;
  readonly #open = new Set<LiveStream>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(limits: LiveStreamLimits = {}) {
    this.#heartbeat = limits.heartbeat ?? 15_000;
    this.#patience = limits.patience ?? 3;
    this.#shares = new StreamShares(limits.most ?? 1000);
    this.#clock = limits.clock ?? (() => new Date());
    // What a caller may see ends at its time, also where the machine slept or its clock was set.
    this.#startTimer = new WallTimers(this.#clock).start;
  }

  /** Number of open streams. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Sends what `source` returns, until it ends, the reader disconnects, the service closes, `over` aborts or the caller may no longer be here.
   */
  open(source: StreamSource, { caller, over, heartbeat }: StreamReader = {}): Response {
    // As those that are open: the reader reconnects. After an error a browser would not.
    if (this.#closed) return new FastResponse("", { headers: HEADERS });
    const signals = [over, caller?.over].filter((signal) => signal !== undefined);
    if (signals.some(({ aborted }) => aborted)) return new FastResponse("", { headers: HEADERS });
    const leave = this.#shares.enter(caller);
    const end = (): void => stream.end();
    const stopTimer =
      caller?.until && this.#startTimer(Math.max(caller.until.getTime() - this.#clock().getTime(), 0), end);
    const stream = new LiveStream(source, heartbeat ?? ": still here\n\n", () => {
      stopTimer?.();
      for (const signal of signals) signal.removeEventListener("abort", end);
      if (this.#open.delete(stream)) leave();
      if (this.#open.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
    for (const signal of signals) signal.addEventListener("abort", end);
    this.#open.add(stream);
    this.#timer ??= setInterval(() => {
      for (const one of this.#open) one.beat(this.#patience);
    }, this.#heartbeat).unref();
    return new FastResponse(stream.body, { headers: HEADERS });
  }

  /** Ends all streams; readers reconnect elsewhere with the id of the last event that they saw. */
  close(): void {
    this.#closed = true;
    for (const stream of this.#open) stream.end();
  }
}

const encoder = new TextEncoder();

class LiveStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #source: StreamSource;
  readonly #heartbeat: string;
  readonly #over = new AbortController();
  readonly #forget: () => void;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  /** Settles the reader's pending request for more, if any. */
  #satisfy: (() => void) | undefined;
  #asking = false;
  /** What arrived while the reader was not ready. */
  #held: string | undefined;
  #beatsMissed = 0;

  constructor(source: StreamSource, heartbeat: string, forget: () => void) {
    this.#source = source;
    this.#heartbeat = heartbeat;
    this.#forget = forget;
    this.body = new ReadableStream(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#pull(),
        cancel: () => this.#finish(),
      },
      { highWaterMark: 0 },
    );
  }

  beat(patience: number): void {
    if (this.#satisfy) {
      this.#send(this.#heartbeat);
      return;
    }
    this.#beatsMissed++;
    if (this.#beatsMissed < patience) return;
    this.#fail(new Error("The client has stopped reading"));
  }

  end(): void {
    if (this.#over.signal.aborted) return;
    this.#finish();
    this.#controller.close();
  }

  #pull(): Promise<void> {
    this.#beatsMissed = 0;
    return new Promise((resolve) => {
      this.#satisfy = resolve;
      if (this.#held === undefined) {
        if (!this.#asking) void this.#ask();
        return;
      }
      const held = this.#held;
      this.#held = undefined;
      this.#send(held);
    });
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    try {
      const text = await this.#source(this.#over.signal);
      if (this.#over.signal.aborted) return;
      if (text === undefined) this.end();
      else if (this.#satisfy) this.#send(text);
      else this.#held = text;
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#asking = false;
    }
  }

  #send(text: string): void {
    const satisfy = this.#satisfy;
    this.#satisfy = undefined;
    this.#controller.enqueue(encoder.encode(text));
    satisfy?.();
  }

  #fail(error: unknown): void {
    if (this.#over.signal.aborted) return;
    this.#finish();
    this.#controller.error(error);
  }

  #finish(): void {
    this.#over.abort();
    this.#satisfy?.();
    this.#satisfy = undefined;
    this.#forget();
  }
}
