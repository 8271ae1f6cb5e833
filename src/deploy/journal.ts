import { closeSync, fdatasyncSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "../core/base/error-text.ts";
import { parseJson } from "../core/base/parse-json.ts";
import { readIfThereSync } from "../core/base/read-if-there.ts";
import type { JournalStep } from "./tools.ts";

/** One line of a journal. */
export interface JournalLine {
  readonly at: string;
  readonly run: string;
  readonly step: string;
  readonly phase: "begin" | "note" | "end" | "fail";
  readonly data?: Readonly<Record<string, unknown>>;
}

/** A step as an unfinished run left it. */
export interface RecalledStep {
  readonly step: string;
  /** When it was first started. */
  readonly at: string;
  readonly phase: "begin" | "end" | "fail";
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * The durable record of a run that may be killed at any point. A line is on disk before the call it announces
 * is made.
 */
export interface Journal {
  record<T>(
    step: JournalStep,
    call: (note: (data: Record<string, unknown>) => Promise<void>) => Promise<T>,
  ): Promise<T>;
  /** Steps of earlier runs that did not finish, in the order in which they were first started. */
  readonly unfinished: readonly RecalledStep[];
  recall(step: string): RecalledStep | undefined;
  /** Steps of this run, in order. */
  readonly steps: readonly RecalledStep[];
  /** Calls of this run that finished. */
  readonly ended: number;
  /** The run finished: there is nothing to resume. */
  finish(): void;
}

export interface JournalOptions {
  /** File of the journal; without one the journal is in memory only. */
  readonly path?: string;
  readonly run: string;
  readonly now: () => Date;
  /** Masks secrets. */
  readonly clean?: (text: string) => string;
  /** Called after each line is on disk. */
  readonly onLine?: (line: JournalLine) => void;
}

/** Opens a journal and reads what earlier runs left in it. */
export function openJournal(options: JournalOptions): Journal {
  const { path, run, now, clean = (text) => text, onLine } = options;
  const recalled = toSteps(path === undefined ? [] : readLines(path));
  const written: JournalLine[] = [];

  function write(step: string, phase: JournalLine["phase"], data?: Readonly<Record<string, unknown>>): void {
    const line: JournalLine = { at: now().toISOString(), run, step, phase, ...(data ? { data } : {}) };
    written.push(line);
    if (path !== undefined) append(path, `${clean(JSON.stringify(line))}\n`);
    onLine?.(line);
  }

  return {
    unfinished: [...recalled.values()],
    recall: (step) => recalled.get(step),
    get ended() {
      return written.filter((line) => line.phase === "end").length;
    },
    get steps() {
      return [...toSteps(written).values()];
    },
    async record({ step, data }, call) {
      write(step, "begin", data);
      try {
        const result = await call(async (note) => write(step, "note", note));
        write(step, "end");
        return result;
      } catch (error) {
        write(step, "fail", { error: messageOf(error) });
        throw error;
      }
    },
    finish() {
      if (path !== undefined) rmSync(path, { force: true });
    },
  };
}

function append(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, "a", 0o600);
  try {
    writeSync(file, text);
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
}

function readLines(path: string): JournalLine[] {
  const text = readIfThereSync(path) ?? "";
  const lines: JournalLine[] = [];
  for (const line of text.split("\n")) {
    // The last line of a killed run may be cut off: its call was not made.
    const read = parseJson(line) as JournalLine | undefined;
    if (read) lines.push(read);
  }
  return lines;
}

function toSteps(lines: readonly JournalLine[]): Map<string, RecalledStep> {
  const steps = new Map<string, RecalledStep>();
  for (const { step, at, phase, data = {} } of lines) {
    const earlier = steps.get(step);
    if (phase === "begin")
      steps.set(step, { step, at: earlier?.at ?? at, phase, data: { ...earlier?.data, ...data } });
    else if (earlier)
      steps.set(step, {
        ...earlier,
        phase: phase === "note" ? earlier.phase : phase,
        // A failed call's message is for people; a resumed run must not treat it as the call's note.
        data: phase === "fail" ? earlier.data : { ...earlier.data, ...data },
      });
  }
  return steps;
}
