import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";

/** Bytes of a job's slot in the file: an id, and what the job is doing, always fit. */
const SIZE = 1024;
const LONGEST = 100;
/** Milliseconds after which the slots of jobs that are over are cleared together. */
const LATER = 1000;

/** A job that was under way when the process before this one crashed. */
export interface Leftover {
  readonly job: string;
  /** What it was doing, where that was noted. */
  readonly doing?: string;
}

/** Knows which jobs are under way, also after the process has crashed. */
export interface UnderWay {
  /** Jobs that were under way when the process before this one crashed, and that `settle` was not called for. */
  leftovers(): ReadonlyMap<string, Leftover>;
  /** What follows from a leftover is stored: no later process finds it. */
  settle(jobId: string): void;
  /** A job begins to use the process. */
  began(jobId: string): void;
  /** It waits for something outside of the process. */
  rested(jobId: string): void;
  /** It is over, in this process at least: that is noted within a second, or when another job takes its place in the file. */
  left(jobId: string): void;
  /** What the job is doing now. */
  doing(jobId: string, what: string | undefined): void;
  /** The process ends in order: nothing was under way. */
  end(): void;
}

interface Entry {
  readonly at: number;
  holders: number;
  doing: string | undefined;
}

/**
 * Notes in a file of the data folder which jobs are under way, each in its own slot that is overwritten.
 * Nothing is synced: what a process has written survives its crash, and nothing more is needed. After a power
 * cut the file can contain anything, and invalid lines are skipped. If the file cannot be opened or created,
 * nothing is noted, and the service runs anyway.
 */
export function openUnderWay(path: string): UnderWay {
  const { text, file } = openNotes(path);
  const left = new Map<string, Leftover & { readonly at: number }>();
  const free: number[] = [];
  const places = Math.ceil(text.length / SIZE);
  for (let at = 0; at < places; at++) {
    const found = readLeftover(text.subarray(at * SIZE, (at + 1) * SIZE));
    if (found && !left.has(found.job)) left.set(found.job, { ...found, at });
    else free.push(at);
  }
  let next = places;
  const entries = new Map<string, Entry>();
  let isOpen = file !== undefined;
  const write = (at: number, bytes: Buffer): void => {
    if (!isOpen) return;
    try {
      writeSync(file!, bytes, 0, bytes.length, at * SIZE);
    } catch {
      // No room, or no disk: the store says so, and a crash is not attributed.
    }
  };
  const note = (jobId: string, { at, doing }: Entry): void => {
    const text = JSON.stringify({
      job: jobId,
      ...(doing !== undefined && { doing: doing.slice(0, LONGEST) }),
    });
    write(at, Buffer.from(`${text}\n`));
  };
  const clear = (at: number): void => {
    write(at, NOTHING);
    free.push(at);
  };
  /** Slots of jobs that are over, and still say that they are under way: of one that has ended, nothing follows from that. */
  const stale = new Map<string, number>();
  let sweep: NodeJS.Timeout | undefined;
  const sweepLater = (): void => {
    sweep ??= setTimeout(() => {
      sweep = undefined;
      for (const at of stale.values()) clear(at);
      stale.clear();
    }, LATER).unref();
  };
  /** The slot that a job has already, else that of a job that is over, else a free one. */
  const takeSlot = (jobId: string): number => {
    const id = stale.has(jobId) ? jobId : stale.keys().next().value;
    if (id !== undefined) {
      const at = stale.get(id)!;
      stale.delete(id);
      return at;
    }
    return free.pop() ?? next++;
  };
  /** Ends a job's use of the process; its slot, if that was the last one. */
  const release = (jobId: string): number | undefined => {
    const entry = entries.get(jobId);
    if (!entry || --entry.holders > 0) return undefined;
    entries.delete(jobId);
    return entry.at;
  };
  return {
    leftovers: () => left,
    settle(jobId) {
      const found = left.get(jobId);
      if (!found) return;
      left.delete(jobId);
      clear(found.at);
    },
    began(jobId) {
      const known = entries.get(jobId);
      if (known) {
        known.holders++;
        return;
      }
      const entry = { at: takeSlot(jobId), holders: 1, doing: undefined };
      entries.set(jobId, entry);
      note(jobId, entry);
    },
    rested(jobId) {
      const at = release(jobId);
      if (at !== undefined) clear(at);
    },
    left(jobId) {
      const at = release(jobId);
      if (at === undefined) return;
      stale.set(jobId, at);
      sweepLater();
    },
    doing(jobId, what) {
      const entry = entries.get(jobId);
      if (!entry || entry.doing === what) return;
      entry.doing = what;
      note(jobId, entry);
    },
    end() {
      if (!isOpen) return;
      isOpen = false;
      clearTimeout(sweep);
      const slots = [...stale.values(), ...Array.from(entries.values(), ({ at }) => at)];
      try {
        // What follows from the last crash may not be stored yet.
        if (left.size === 0) ftruncateSync(file!);
        else for (const at of slots) writeSync(file!, NOTHING, 0, NOTHING.length, at * SIZE);
      } catch {
        // The jobs count as under way at a crash: once more than they were.
      }
      closeSync(file!);
    },
  };
}

const NOTHING = Buffer.from("-");

function openNotes(path: string): { text: Buffer; file: number | undefined } {
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    return { file, text: readFileSync(file) };
  } catch {
    return { file: undefined, text: Buffer.alloc(0) };
  }
}

function readLeftover(line: Buffer): Leftover | undefined {
  try {
    // What the slot had before may follow.
    const end = line.indexOf("\n");
    const { job, doing } = JSON.parse(
      line.toString("utf8", 0, end < 0 ? line.length : end),
    ) as Partial<Leftover>;
    if (typeof job !== "string") return undefined;
    return typeof doing === "string" ? { job, doing } : { job };
  } catch {
    return undefined;
  }
}
