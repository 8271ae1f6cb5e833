import { SlotFile } from "./slot-file.ts";

/** Characters of what a job is doing: with its id, that always fits into a slot. */
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
  /** A job begins to use the process. It is noted at the next `flush`. */
  began(jobId: string): void;
  /** Notes those that are new, all in one write: to be called before their code runs. */
  flush(): void;
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
  /** Number of its slot. */
  readonly at: number;
  holders: number;
  doing: string | undefined;
}

/**
 * Notes in a file of the data folder which jobs are under way, each in its own slot. After a power cut the file can
 * contain anything, and invalid lines are skipped. If it cannot be used, nothing is noted, and the service runs anyway.
 */
export function openUnderWay(path: string): UnderWay {
  const file = new SlotFile(path);
  const left = new Map<string, Leftover & { readonly at: number }>();
  const free: number[] = [];
  const lines = file.lines();
  for (const [at, line] of lines.entries()) {
    const found = readLeftover(line);
    if (found && !left.has(found.job)) left.set(found.job, { ...found, at });
    else free.push(at);
  }
  let next = lines.length;
  const entries = new Map<string, Entry>();
  let isOpen = true;
  const note = (job: string, { at, doing }: Entry): void => {
    file.set(at, JSON.stringify(doing === undefined ? { job } : { job, doing: doing.slice(0, LONGEST) }));
  };
  const clear = (at: number): void => {
    file.clear(at);
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
      if (isOpen) file.flush();
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
      file.flush();
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
    flush: () => file.flush(),
    rested(jobId) {
      const at = release(jobId);
      if (at === undefined) return;
      clear(at);
      file.flush();
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
      file.flush();
    },
    end() {
      if (!isOpen) return;
      isOpen = false;
      clearTimeout(sweep);
      for (const at of stale.values()) file.clear(at);
      for (const { at } of entries.values()) file.clear(at);
      // What follows from the last crash may not be stored yet.
      file.close(left.size === 0);
    },
  };
}

function readLeftover(line: string): Leftover | undefined {
  try {
    const { job, doing } = JSON.parse(line) as Partial<Leftover>;
    if (typeof job !== "string") return undefined;
    return typeof doing === "string" ? { job, doing } : { job };
  } catch {
    return undefined;
  }
}
