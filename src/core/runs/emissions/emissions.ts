import { isLongerThan, toJsonValue } from "../../agents/json-value.ts";
import { PassingMap } from "../../base/passing-map.ts";
import type { RedactedParts, Redactor } from "../../base/redactor.ts";
import type { EmittedChunks, EmittingStep } from "../../models/emitted-chunks.ts";

/** For one attempt of a step. */
export interface Emitter {
  /** Throws what JSON cannot represent. */
  emit(chunk: unknown): void;
  /**
   * The attempt is over: nothing more is emitted. Gives all that it has emitted, masked, with texts in a row as one;
   * `undefined` where that is nothing, or too much.
   */
  end(): readonly unknown[] | undefined;
}

/** For an attempt of a step at another instance. */
export interface RelayedAttempt {
  /** Chunks, masked, from number `at` on. Those that are known are ignored; those that are missing count as dropped. */
  receive(at: number, chunks: readonly unknown[]): void;
  /** Nothing more comes. */
  end(): void;
}

/** What the attempts of a job's steps emit, for one reader. */
export interface EmissionReader {
  /**
   * What was emitted since the last call, as far as it is still known, of attempts that are over, or of all. About
   * `most` bytes (default 256 KiB); the rest comes with the next call.
   */
  take(which: "over" | "all", most?: number): EmittedChunks[];
  close(): void;
}

/** Approximate bytes of one attempt's chunks that are kept, and of all together. */
const MOST_OF_ONE = 256 * 1024;
const MOST = 64 * 1024 * 1024;
/** Approximate bytes of what a reader gets at a time. */
const LONG = 256 * 1024;

/**
 * What steps under way have emitted: an attempt's chunks are known while it is under way, then until those have them who
 * followed the job meanwhile; later readers find them in the record of the attempt. What there is too much of is dropped,
 * the oldest first, and counted.
 */
export class Emissions {
  readonly #redactor: Redactor;
  readonly #jobs = new PassingMap<string, { readonly live: Set<Attempt>; readonly readers: Set<Reader> }>();
  /** Attempts with chunks, those that are over first. */
  readonly #over = new Set<Attempt>();
  readonly #live = new PassingMap<number, Attempt>();
  #count = 0;
  #size = 0;

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** For an attempt of a step of a job, which may emit something. */
  attempt(jobId: string, describe: () => EmittingStep): Emitter {
    let attempt: Attempt | undefined;
    let isOver = false;
    return {
      emit: (chunk) => {
        if (isOver) return;
        attempt ??= this.#begin(jobId, describe(), { isRelayed: false });
        attempt.emit(chunk);
      },
      end: () => {
        isOver = true;
        return attempt?.end();
      },
    };
  }

  /** For an attempt of a step of a job that another instance runs. */
  relayed(jobId: string, step: EmittingStep): RelayedAttempt {
    return this.#begin(jobId, step, { isRelayed: true });
  }

  #begin(jobId: string, step: EmittingStep, { isRelayed }: { readonly isRelayed: boolean }): Attempt {
    const { live, readers } = this.#jobOf(jobId);
    const name = this.#redactor.text(step.name);
    const number = this.#count++;
    const attempt = new Attempt({ ...step, name }, this.#redactor, isRelayed, {
      grown: (bytes) => {
        this.#size += bytes;
        if (this.#size > MOST) this.#shed();
        for (const reader of readers) reader.notify();
      },
      over: () => {
        live.delete(attempt);
        this.#live.delete(number);
        // Later readers find its result in the log.
        attempt.readers = 0;
        for (const reader of readers) if (reader.isBehind(attempt)) attempt.readers++;
        if (attempt.readers > 0) this.#over.add(attempt);
        else this.#forget(attempt);
        this.#tidy(jobId);
      },
    });
    live.add(attempt);
    this.#live.set(number, attempt);
    for (const reader of readers) reader.add(attempt);
    return attempt;
  }

  /**
   * Calls `notify` when there is something new of a job. The first `take` gives what its live attempts have emitted so far;
   * with `own` only those at this instance.
   */
  follow(jobId: string, notify: () => void, { own = false } = {}): EmissionReader {
    const { live, readers } = this.#jobOf(jobId);
    const reader = new Reader(notify, own, (attempt) => {
      if (--attempt.readers > 0) return;
      this.#over.delete(attempt);
      this.#forget(attempt);
    });
    for (const attempt of live) reader.add(attempt);
    readers.add(reader);
    return {
      take: (which, most) => reader.take(which, most),
      close: () => {
        readers.delete(reader);
        reader.leave();
        this.#tidy(jobId);
      },
    };
  }

  #jobOf(jobId: string) {
    const job = this.#jobs.get(jobId) ?? { live: new Set<Attempt>(), readers: new Set<Reader>() };
    this.#jobs.set(jobId, job);
    return job;
  }

  #tidy(jobId: string): void {
    const job = this.#jobs.get(jobId);
    if (job?.live.size === 0 && job.readers.size === 0) this.#jobs.delete(jobId);
  }

  #forget(attempt: Attempt): void {
    this.#size -= attempt.drop();
  }

  #shed(): void {
    for (const attempts of [this.#over, this.#live.values()]) {
      for (const attempt of attempts) {
        if (this.#size <= MOST / 2) return;
        this.#forget(attempt);
      }
    }
  }
}

/** What one attempt of a step has emitted, as far as it is kept. */
class Attempt implements RelayedAttempt {
  readonly step: EmittingStep;
  readonly isRelayed: boolean;
  /** Readers that have not read all of it, once it is over. */
  readers = 0;
  #isOver = false;
  #first = 0;
  #chunks: unknown[] = [];
  #sizes: number[] = [];
  #size = 0;
  readonly #redactor: Redactor;
  #text: RedactedParts | undefined;
  readonly #told: { readonly grown: (bytes: number) => void; readonly over: () => void };

  constructor(
    step: EmittingStep,
    redactor: Redactor,
    isRelayed: boolean,
    told: { readonly grown: (bytes: number) => void; readonly over: () => void },
  ) {
    this.step = step;
    this.isRelayed = isRelayed;
    this.#redactor = redactor;
    this.#told = told;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Number of chunks that were emitted. */
  get count(): number {
    return this.#first + this.#chunks.length;
  }

  emit(value: unknown): void {
    if (typeof value === "string") {
      this.#text ??= this.#redactor.parts();
      this.#push(this.#text.take(value));
      return;
    }
    const chunk = this.#redactor.json(toJsonValue(value, `A chunk of step "${this.step.name}"`));
    this.#flush();
    this.#push(chunk);
  }

  receive(at: number, chunks: readonly unknown[]): void {
    if (this.#isOver) return;
    if (at > this.count) {
      this.#told.grown(-this.drop());
      this.#first = at;
    }
    for (const chunk of chunks.slice(this.count - at)) this.#push(chunk);
  }

  end(): readonly unknown[] | undefined {
    if (this.#isOver) return undefined;
    this.#flush();
    this.#isOver = true;
    const all = this.#first === 0 && this.#chunks.length > 0 ? joinTexts(this.#chunks) : undefined;
    this.#told.over();
    return all;
  }

  /** What was emitted from chunk `from` on, at most about so many bytes. */
  read(from: number, most: number): Pick<EmittedChunks, "index" | "chunks" | "skipped"> & { bytes: number } {
    const index = Math.max(from, this.#first);
    let at = index - this.#first;
    let bytes = 0;
    while (at < this.#chunks.length && bytes < most) bytes += this.#sizes[at++]!;
    const chunks = this.#chunks.slice(index - this.#first, at);
    return { index, chunks, ...(index > from && { skipped: index - from }), bytes };
  }

  /** Forgets all chunks, and returns their size. */
  drop(): number {
    const size = this.#size;
    this.#first = this.count;
    this.#chunks = [];
    this.#sizes = [];
    this.#size = 0;
    return size;
  }

  #flush(): void {
    const rest = this.#text?.rest();
    if (rest) this.#push(rest);
  }

  #push(chunk: unknown): void {
    if (chunk === "") return;
    const size = sizeOf(chunk);
    let grown = size;
    if (this.#size + size > MOST_OF_ONE) grown -= this.#trim(size);
    if (size > MOST_OF_ONE) {
      grown -= size;
      this.#first++;
    } else {
      this.#chunks.push(chunk);
      this.#sizes.push(size);
      this.#size += size;
    }
    this.#told.grown(grown);
  }

  /** Drops more than is needed: it is done seldom. */
  #trim(size: number): number {
    let dropped = 0;
    let count = 0;
    const most = Math.max(0, (MOST_OF_ONE * 3) / 4 - size);
    while (count < this.#sizes.length && this.#size - dropped > most) dropped += this.#sizes[count++]!;
    this.#chunks.splice(0, count);
    this.#sizes.splice(0, count);
    this.#first += count;
    this.#size -= dropped;
    return dropped;
  }
}

class Reader {
  readonly notify: () => void;
  readonly #isOwn: boolean;
  readonly #read: (attempt: Attempt) => void;
  /** The number of the next chunk that it gets, by attempt. */
  readonly #next = new Map<Attempt, number>();

  constructor(notify: () => void, isOwn: boolean, read: (attempt: Attempt) => void) {
    this.notify = notify;
    this.#isOwn = isOwn;
    this.#read = read;
  }

  add(attempt: Attempt): void {
    if (attempt.isRelayed && this.#isOwn) return;
    this.#next.set(attempt, 0);
  }

  /** Whether it has not read all of an attempt that is over; one that it has read is forgotten. */
  isBehind(attempt: Attempt): boolean {
    const next = this.#next.get(attempt);
    if (next === undefined) return false;
    if (next < attempt.count) return true;
    this.#next.delete(attempt);
    return false;
  }

  take(which: "over" | "all", most = LONG): EmittedChunks[] {
    const taken: EmittedChunks[] = [];
    let left = most;
    for (const [attempt, next] of this.#next) {
      if (which === "over" && !attempt.isOver) continue;
      if (left <= 0) break;
      if (next < attempt.count) {
        const { bytes, ...read } = attempt.read(next, left);
        left -= bytes;
        taken.push({ type: "chunk", ...attempt.step, ...read });
        this.#next.set(attempt, read.index + read.chunks.length);
      }
      if (attempt.isOver && this.#next.get(attempt) === attempt.count) {
        this.#next.delete(attempt);
        this.#read(attempt);
      }
    }
    return taken;
  }

  leave(): void {
    for (const attempt of this.#next.keys()) if (attempt.isOver) this.#read(attempt);
    this.#next.clear();
  }
}

/** Chunks with texts in a row as one. */
export function joinTexts(chunks: readonly unknown[]): unknown[] {
  const joined: unknown[] = [];
  let texts: string[] = [];
  const end = (): void => {
    if (texts.length > 0) joined.push(texts.join(""));
    texts = [];
  };
  for (const chunk of chunks) {
    if (typeof chunk === "string") {
      texts.push(chunk);
      continue;
    }
    end();
    joined.push(chunk);
  }
  end();
  return joined;
}

/** Approximate bytes that a chunk takes. */
function sizeOf(chunk: unknown): number {
  if (typeof chunk === "string") return chunk.length + 48;
  return isLongerThan(MOST_OF_ONE, chunk) ? MOST_OF_ONE + 1 : JSON.stringify(chunk).length + 96;
}
