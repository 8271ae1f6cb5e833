import { type EntityStatus, isTerminal } from "../../models/entity-status.ts";
import type { AnswerEntry, CallEntry, MarkEntry, RunEntry } from "../../models/run-entry.ts";

/** Tries of a step so far. */
interface Tries {
  /** Failed since the step was last begun afresh: these count against its retries. */
  failed: number;
  /** Before that. */
  earlier: number;
}

/** What is recorded of the calls of a job, or of one of its cases. */
export interface ScopeRecord {
  readonly calls: Map<number, CallEntry>;
  readonly tries: Map<number, Tries>;
  /** Questions asked, by position. */
  readonly asked: Map<number, string>;
  readonly answers: Map<string, AnswerEntry>;
  /** Ends of the process since the last recorded call: each may have cut a step short. */
  interruptions: number;
}

/** The record of a job's runs, read from its log: what replay answers from. */
export class RunRecord {
  readonly #scopes = new Map<string, ScopeRecord>();
  /** Case ids by the ids that the agent gave them. */
  readonly cases = new Map<string, string>();
  /** What the recorded calls and failed attempts cost. */
  spent = 0;
  /** Times that the job was begun from the start again. */
  generation = 0;
  /** Milliseconds that the job ran in spans that have ended. */
  elapsed = 0;
  /** When the job last went from waiting for its turn, or from an end, into progress. */
  since: string | undefined;

  static read(entries: Iterable<RunEntry>): RunRecord {
    const record = new RunRecord();
    for (const entry of entries) record.#add(entry);
    return record;
  }

  /** The calls of a case, or of the job itself. */
  scope(caseId?: string): ScopeRecord {
    const key = caseId ?? "";
    const known = this.#scopes.get(key);
    if (known) return known;
    const made: ScopeRecord = {
      calls: new Map(),
      tries: new Map(),
      asked: new Map(),
      answers: new Map(),
      interruptions: 0,
    };
    this.#scopes.set(key, made);
    return made;
  }

  /** Scopes by case id; the job's own under the empty text. */
  get scopes(): ReadonlyMap<string, ScopeRecord> {
    return this.#scopes;
  }

  /** Cases that no recorded call has closed. */
  openCases(): string[] {
    return [...this.cases.values()].filter((id) => !isClosed(this.scope(id)));
  }

  /** Forgets the failures that each scope ends with, so that they are tried again. */
  forgetFailures(): void {
    for (const { calls, tries } of this.#scopes.values()) {
      for (let last = lastOf(calls); calls.get(last)?.error; last = lastOf(calls)) {
        const attempts = calls.get(last)?.attempts ?? 0;
        calls.delete(last);
        tries.set(last, { failed: 0, earlier: Math.max(attempts, tries.get(last)?.earlier ?? 0) });
      }
      for (const one of tries.values()) {
        one.earlier += one.failed;
        one.failed = 0;
      }
    }
  }

  /** Names a recorded call that the handler has not made; calls that it made are taken out of the record. */
  leftOver(): string | undefined {
    for (const [caseId, { calls }] of this.#scopes) {
      const [first] = [...calls.values()].sort((a, b) => a.position - b.position);
      if (!first) continue;
      const where = caseId === "" ? "the job" : `case "${caseId}"`;
      return `The handler ended, but the record of ${where} goes on with ${first.call} "${first.name}" at position ${first.position}: it no longer does what it did when the job began, or made that call inside a step's function`;
    }
    return undefined;
  }

  #add(entry: RunEntry): void {
    switch (entry.type) {
      case "call":
        this.#addCall(entry);
        return;
      case "attempt": {
        const { tries } = this.scope(entry.case_id);
        const known = tries.get(entry.position) ?? { failed: 0, earlier: 0 };
        tries.set(entry.position, { ...known, failed: known.failed + 1 });
        this.spent += entry.cost ?? 0;
        return;
      }
      case "begun":
        if (entry.call === "ask") this.scope(entry.case_id).asked.set(entry.position, entry.name);
        return;
      case "answer":
        this.scope(entry.case_id).answers.set(entry.question_id, entry);
        return;
      case "status":
        this.#addStatus(entry.to, entry.at);
        return;
      case "mark":
        this.#addMark(entry);
        return;
    }
  }

  #addCall(entry: CallEntry): void {
    this.spent += entry.cost ?? 0;
    if (entry.call === "open_case") {
      this.cases.set(entry.name, entry.result as string);
      this.scope().interruptions = 0;
      this.scope(entry.result as string);
      return;
    }
    const scope = this.scope(entry.case_id);
    scope.calls.set(entry.position, entry);
    scope.interruptions = 0;
  }

  #addStatus(to: EntityStatus, at: string): void {
    if (to === "in_progress") this.since ??= at;
    if (!isTerminal(to) || this.since === undefined) return;
    // The clock may have been set back in between.
    this.elapsed += Math.max(0, Date.parse(at) - Date.parse(this.since));
    this.since = undefined;
  }

  #addMark({ mark, by }: MarkEntry): void {
    if (mark === "interrupted") {
      this.scope();
      for (const scope of this.#scopes.values()) scope.interruptions++;
    }
    if (mark === "retried" || mark === "limits_raised") this.forgetFailures();
    if (mark !== "restarted") return;
    this.#scopes.clear();
    this.cases.clear();
    this.generation++;
    // What a crash began again was spent all the same; a person who begins again begins with nothing.
    if (by === undefined) return;
    this.spent = 0;
    this.elapsed = 0;
  }
}

function isClosed({ calls }: ScopeRecord): boolean {
  const last = calls.get(lastOf(calls));
  return last?.call === "close" || (last?.call === "ask" && last.error !== undefined);
}

function lastOf(calls: ReadonlyMap<number, CallEntry>): number {
  let last = -1;
  for (const position of calls.keys()) last = Math.max(last, position);
  return last;
}
