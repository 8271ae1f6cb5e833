import { randomUUID } from "node:crypto";
import type { EmittedChunks, EmittingStep } from "../../models/emitted-chunks.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Hints } from "../../store/store.ts";
import type { EmissionReader, Emissions, RelayedAttempt } from "./emissions.ts";

/** Topics of its hints. */
const FOLLOW = "follow";
const EMITTED = "emitted";
/** Milliseconds after which an instance says again what it follows, and in which others believe that. */
const REPEAT = 5000;
const FRESH = 3 * REPEAT;
/** Milliseconds in which chunks are gathered. */
const GATHERED = 50;
/** Approximate bytes that are sent at a time: what does not fit waits where it was emitted, or is dropped there. */
const MOST_AT_ONCE = 128 * 1024;
/** Bytes of one message as a JSON string in JSON: a notification of Postgres takes less than 8000. */
const LONGEST = 6000;
/** UTF-16 units of a part of a long text: each takes 7 bytes at most. */
const LONG_TEXT = 600;
/** Jobs that one instance relays, and ends of attempts of a job that are remembered, so that late chunks are dropped. */
const MOST_JOBS = 10_000;
const MOST_ENDS = 1000;

/** Chunks on their way: to whom, in which session, from whom, of which job and step, and the number of the first one. */
type Message = readonly [
  to: string,
  session: string,
  from: string,
  jobId: string,
  step: EmittingStep,
  at: number,
  chunks: readonly unknown[],
];

interface RelayParts {
  readonly hints: Hints;
  readonly emissions: Emissions;
  /** Id of this instance. */
  readonly instance: () => string | undefined;
}

/** A job that streams of this instance follow, and that another instance runs. */
interface Followed {
  /** Known to those who send: chunks for an earlier one do not count. */
  readonly session: string;
  readonly listeners: Set<() => void>;
  readonly attempts: Map<string, { readonly step: EmittingStep; readonly relayed: RelayedAttempt }>;
  /** The last attempt that has ended, by step. */
  readonly ends: Map<string, number>;
  owner: string | undefined;
  isHeard: boolean;
}

/** A job that another instance follows. */
interface Follower {
  readonly to: string;
  readonly jobId: string;
  readonly session: string;
  readonly reader: EmissionReader;
  /** Number of the next chunk on the way, by attempt: a long text is several. */
  readonly next: Map<string, number>;
  /** When it was last asked for, by the monotonic clock. */
  asked: number;
  isDue: boolean;
}

/**
 * Brings what steps emit to the instances that follow their jobs, over the store's hints. What gets lost on the way is
 * counted as skipped: all that counts is in the log. An instance says every few seconds which jobs it follows, and others
 * send only while it does.
 */
export class EmissionRelay {
  readonly #parts: RelayParts;
  readonly #followed = new Map<string, Followed>();
  readonly #followers = new Map<string, Follower>();
  readonly #stopHints: () => void;
  #repeat: NodeJS.Timeout | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.#stopHints = parts.hints.on((hint) => {
      if (hint === "all") this.#ask([...this.#followed.keys()]);
      else if (hint.topic === FOLLOW) for (const id of hint.ids) this.#asked(id);
      else if (hint.topic === EMITTED) for (const id of hint.ids) this.#hear(JSON.parse(id) as Message);
    });
  }

  close(): void {
    this.#stopHints();
    clearInterval(this.#repeat);
    clearTimeout(this.#timer);
    for (const { reader } of this.#followers.values()) reader.close();
    this.#followers.clear();
  }

  /**
   * Asks other instances for what a job's steps emit, until the result is called. Calls `notify` when the first of it has
   * come; what came is that of attempts at this instance, for readers of `Emissions`.
   */
  follow(jobId: string, notify: () => void): () => void {
    let job = this.#followed.get(jobId);
    if (!job) {
      job = {
        ...{ session: randomUUID(), listeners: new Set(), attempts: new Map(), ends: new Map() },
        ...{ owner: undefined, isHeard: false },
      };
      this.#followed.set(jobId, job);
      this.#ask([jobId]);
    }
    const { listeners } = job;
    // The same function may follow twice.
    const own = () => notify();
    listeners.add(own);
    this.#repeat ??= setInterval(() => this.#ask([...this.#followed.keys()]), REPEAT).unref();
    return () => {
      listeners.delete(own);
      if (listeners.size > 0 || this.#followed.get(jobId)?.listeners !== listeners) return;
      this.#drop(job);
      this.#followed.delete(jobId);
      if (this.#followed.size > 0) return;
      clearInterval(this.#repeat);
      this.#repeat = undefined;
    };
  }

  /** Which instance runs a job that is followed: chunks of others do not count. */
  setOwner(jobId: string, owner: string | null | undefined): void {
    const job = this.#followed.get(jobId);
    if (!job || job.owner === (owner ?? undefined)) return;
    this.#drop(job);
    job.owner = owner ?? undefined;
    job.isHeard = false;
  }

  /** Whether chunks of a job have come from the instance that runs it. */
  hears(jobId: string): boolean {
    return this.#followed.get(jobId)?.isHeard ?? false;
  }

  /** Ends the attempts that entries of a job's log end: chunks of these that come later are dropped. */
  settle(jobId: string, entries: readonly { readonly entry: RunEntry }[]): void {
    const job = this.#followed.get(jobId);
    if (!job) return;
    for (const { entry } of entries) {
      if (entry.type !== "attempt" && (entry.type !== "call" || entry.call !== "step")) continue;
      const key = stepKey(entry);
      job.ends.delete(key);
      job.ends.set(key, entry.type === "attempt" ? entry.attempt : Number.POSITIVE_INFINITY);
      if (job.ends.size > MOST_ENDS) job.ends.delete(job.ends.keys().next().value!);
      for (const [id, { step, relayed }] of job.attempts) {
        if (stepKey(step) !== key || !isOver(job, step)) continue;
        relayed.end();
        job.attempts.delete(id);
      }
    }
  }

  #drop(job: Followed): void {
    for (const { relayed } of job.attempts.values()) relayed.end();
    job.attempts.clear();
  }

  #ask(jobIds: readonly string[]): void {
    const instance = this.#parts.instance();
    if (instance === undefined || jobIds.length === 0) return;
    const ids = jobIds.map((id) => `${instance} ${this.#followed.get(id)!.session} ${id}`);
    this.#parts.hints.tell(FOLLOW, ids);
  }

  /** Another instance follows a job. */
  #asked(id: string): void {
    const [to, session] = id.split(" ", 2) as [string, string];
    if (to === this.#parts.instance()) return;
    const jobId = id.slice(to.length + session.length + 2);
    const key = `${to} ${jobId}`;
    const known = this.#followers.get(key);
    if (known?.session === session) {
      known.asked = performance.now();
      return;
    }
    known?.reader.close();
    this.#tidy();
    if (this.#followers.size >= MOST_JOBS) return;
    const notify = () => {
      follower.isDue = true;
      this.#schedule();
    };
    const follower: Follower = {
      ...{ to, jobId, session, next: new Map(), asked: performance.now(), isDue: true },
      reader: this.#parts.emissions.follow(jobId, notify, { own: true }),
    };
    this.#followers.set(key, follower);
    this.#schedule();
  }

  /** Forgets what nobody has asked for lately. */
  #tidy(): void {
    const since = performance.now() - FRESH;
    for (const [key, { asked, reader }] of this.#followers) {
      if (asked > since) continue;
      reader.close();
      this.#followers.delete(key);
    }
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#send();
    }, GATHERED).unref();
  }

  #send(): void {
    this.#tidy();
    let left = MOST_AT_ONCE;
    for (const [key, follower] of this.#followers) {
      if (!follower.isDue) continue;
      if (left <= 0) {
        this.#schedule();
        return;
      }
      // The others come first next time.
      this.#followers.delete(key);
      this.#followers.set(key, follower);
      const taken = follower.reader.take("all", left);
      follower.isDue = taken.length > 0;
      if (follower.isDue) this.#schedule();
      const messages = taken.flatMap((emitted) => this.#messages(follower, emitted));
      for (const message of messages) left -= message.length;
      this.#parts.hints.tell(EMITTED, messages);
    }
  }

  #messages({ to, session, jobId, next }: Follower, emitted: EmittedChunks): string[] {
    const { type: _, index: __, chunks, skipped = 0, ...step } = emitted;
    const id = attemptKey(step);
    let at = (next.get(id) ?? 0) + skipped;
    const head = [to, session, this.#parts.instance(), jobId, step] as const;
    const room = LONGEST - sizeOf(head);
    const messages: string[] = [];
    let part: unknown[] = [];
    let size = 0;
    const end = () => {
      if (part.length > 0) messages.push(JSON.stringify([...head, at - part.length, part]));
      part = [];
      size = 0;
    };
    for (const piece of chunks.flatMap(toPieces)) {
      const own = sizeOf(piece) + 1;
      if (size + own > room) end();
      if (own > room) {
        // It does not fit into any message: the next one says that it is missing.
        at++;
        continue;
      }
      part.push(piece);
      size += own;
      at++;
    }
    end();
    next.delete(id);
    next.set(id, at);
    if (next.size > MOST_ENDS) next.delete(next.keys().next().value!);
    return messages;
  }

  #hear([to, session, from, jobId, step, at, chunks]: Message): void {
    if (to !== this.#parts.instance()) return;
    const job = this.#followed.get(jobId);
    if (job?.session !== session || job.owner !== from || isOver(job, step)) return;
    const id = attemptKey(step);
    let known = job.attempts.get(id);
    if (!known) {
      known = { step, relayed: this.#parts.emissions.relayed(jobId, step) };
      job.attempts.set(id, known);
    }
    const isFirst = !job.isHeard;
    job.isHeard = true;
    known.relayed.receive(at, chunks);
    if (isFirst) for (const notify of [...job.listeners]) notify();
  }
}

function stepKey({ case_id, position }: Pick<EmittingStep, "case_id" | "position">): string {
  return `${position} ${case_id ?? ""}`;
}

function attemptKey(step: EmittingStep): string {
  return `${step.run} ${step.attempt} ${stepKey(step)}`;
}

function isOver({ ends }: Followed, step: EmittingStep): boolean {
  return (ends.get(stepKey(step)) ?? 0) >= step.attempt;
}

function toPieces(chunk: unknown): unknown[] {
  if (typeof chunk !== "string" || chunk.length <= LONG_TEXT) return [chunk];
  const pieces: string[] = [];
  for (let from = 0; from < chunk.length; from += LONG_TEXT) pieces.push(chunk.slice(from, from + LONG_TEXT));
  return pieces;
}

/** Bytes that a value takes in a message, which is a string in JSON. */
function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(JSON.stringify(value)));
}
