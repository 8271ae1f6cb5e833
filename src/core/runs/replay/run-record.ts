import type { Jobs } from "../../entities/jobs.ts";
import { type EntityStatus, isTerminal } from "../../models/entity-status.ts";
import type { Code } from "../../models/job.ts";
import type {
  AnswerEntry,
  AttemptEntry,
  BegunEntry,
  CallEntry,
  MarkEntry,
  RunEntry,
  StatusEntry,
} from "../../models/run-entry.ts";
import type { Call, CallKind } from "./call.ts";
import { clean } from "./limits.ts";
import { isOldSleep, readOldCalls } from "./old-record.ts";
import type { RunEnd } from "./run-errors.ts";
import { ScopeRecord } from "./scope-record.ts";

type CallLine = CallEntry | AttemptEntry | BegunEntry;

/** What a log has of calls, besides their ends. */
class FoundCalls {
  /** Questions and sleeps. */
  readonly begun = new Set<Call>();
  /** Steps with tries that failed. */
  readonly tried = new Set<Call>();
  /** Steps that wait for their next try. */
  readonly pausing = new Set<Call>();
  /** Sleeps of version 0.1.0, of which only the beginning was recorded. */
  readonly oldSleeps = new Set<Call>();
  /** Calls by which limits were reached, until the job's end is stored. */
  readonly ending = new Set<Call>();
  /** Stored events that calls were given. */
  readonly events = new Set<string>();
}

/** The record of a job's runs, read from its log: what replay answers from. */
export class RunRecord {
  readonly #scopes = new Map<string, ScopeRecord>();
  /** Case ids by the ids that the agent gave them. */
  readonly cases = new Map<string, string>();
  /** Calls whose end is recorded, in the order of the log. */
  ended: Call[] = [];
  /** What `job.changed` answered, by name. */
  readonly changes = new Map<string, boolean>();
  /** The code that ran the job, from line to line of the log. */
  readonly #codes: { readonly from: number; readonly code: Code; readonly reads: boolean }[] = [];
  /** Lines of the log that record an end of the process. */
  #interruptions: number[] = [];
  /** What the recorded calls and failed attempts cost. */
  spent = 0;
  /** Lines of the log. */
  lines = 0;
  /** Times that the job was started over. */
  generation = 0;
  /** Milliseconds that the job ran in spans that have ended. */
  elapsed = 0;
  /** When the job last went from waiting for its turn, or from an end, into progress. */
  since: string | undefined;
  /** When it first did. */
  began: string | undefined;
  /** Times that it went out of progress, also before it was started over. */
  spans = 0;
  /** Whether failures of it were forgotten. */
  isRetried = false;
  /** Whether its handler has read the job or a case. */
  hasReads = false;
  /** Whether version 0.1.0 made some of it. */
  isOld = false;
  /** Whether it was read from a log; else it is of a new job, and has nothing. */
  isRead = false;
  /** Line of the log up to which a fork's record was copied from another job; 0 if nothing was copied. */
  copiedTo = 0;
  /** When the process began, or the job. */
  #begunAt = "";
  /** What was read; most records are of new jobs, of which there is nothing to read. */
  #found: FoundCalls | undefined;
  /** Called with each line of the log that belongs to a call. */
  #onLine: ((call: Call, line: number) => void) | undefined;

  /** What is recorded of a job; `known` is the beginning of its log, if it was read before. */
  static async of(jobs: Jobs, jobId: string, known: readonly RunEntry[] = []): Promise<RunRecord> {
    const entries = [...known];
    for (const { entry } of await jobs.log(jobId, { after: known.length })) entries.push(entry);
    return RunRecord.read(entries);
  }

  static read(entries: readonly RunEntry[], onLine?: (call: Call, line: number) => void): RunRecord {
    const record = new RunRecord();
    record.isRead = true;
    record.#found = new FoundCalls();
    record.#onLine = onLine;
    record.lines = entries.length;
    const restart = entries.findLastIndex((entry) => entry.type === "mark" && entry.mark === "restarted");
    const current = restart < 0 ? entries : entries.slice(restart + 1);
    record.isOld = readOldCalls(current, (caseId) => record.scope(caseId));
    for (let at = 0; at < entries.length; at++) {
      const entry = entries[at]!;
      record.#sumUp(entry);
      if ("code" in entry && entry.code !== undefined) record.#addCode(entry, at + 1);
      if (entry.type === "mark" || at === 0) record.#begunAt = entry.at;
      // Lines are numbered from 1.
      if (at > restart) record.#add(entry, at + 1);
    }
    return record;
  }

  /** What the job has cost: the job itself tells it only since something else of it was stored. */
  get cost(): number {
    return clean(this.spent);
  }

  /** The calls of a case, or of the job itself. */
  scope(caseId?: string): ScopeRecord {
    const key = caseId ?? "";
    const known = this.#scopes.get(key);
    if (known) return known;
    const made = new ScopeRecord(caseId);
    this.#scopes.set(key, made);
    return made;
  }

  /** The code that recorded a line of the log, as far as that is known. */
  codeAt(line: number): Code {
    return this.#codes.findLast(({ from }) => from <= line)?.code ?? { version: null, fingerprint: null };
  }

  /** Whether the run that recorded a line has recorded what its handler read. */
  recordsReads(line: number): boolean {
    return line > this.lines || this.#codes.findLast(({ from }) => from <= line)?.reads === true;
  }

  /** Questions and sleeps that were started and have not ended. */
  open(): Call[] {
    return [...(this.#found?.begun ?? [])].filter((call) => !call.isSettled);
  }

  /** Calls of which something is recorded, but not their end. */
  begun(): Call[] {
    if (!this.#found) return [];
    const { begun, tried } = this.#found;
    return [...new Set([...begun, ...tried])].filter((call) => !call.isSettled);
  }

  /** Stored events that its calls were given. */
  get events(): Iterable<string> {
    return this.#found?.events ?? [];
  }

  /** Cases that no recorded call has closed. */
  openCases(): string[] {
    if (this.cases.size === 0) return [];
    const closed = new Set(this.ended.filter(closesCase).map(({ caseId }) => caseId));
    return [...this.cases.values()].filter((id) => !closed.has(id));
  }

  /** Times that the end of the process cut a call short which is not recorded. */
  cutShort({ issuedAt, tries }: Call): number {
    const from = Math.max(issuedAt, tries?.line ?? 0);
    let count = 0;
    for (const line of this.#interruptions) if (line > from) count++;
    return count - (tries?.paused ?? 0);
  }

  /** Forgets the failures that each scope ends with, so that they are tried again; returns these calls. */
  forgetFailures(): readonly Call[] {
    /**
     * When the last successful call of a scope started: the handler has continued since the failures before.
     */
    const wentOn = new Map<string | undefined, number>();
    const forgotten = new Set<Call>();
    for (const call of this.ended.toReversed()) {
      const { caseId, kind, entry } = call;
      if (kind === "open_case" || !entry) continue;
      const before = wentOn.get(caseId) ?? Number.NEGATIVE_INFINITY;
      if (!entry.error) wentOn.set(caseId, Math.max(before, Date.parse(entry.started_at ?? entry.at)));
      else if (before < Date.parse(entry.at)) forgotten.add(call);
    }
    for (const call of forgotten) forget(call);
    this.isRetried = true;
    this.ended = this.ended.filter((call) => !forgotten.has(call));
    for (const { tries } of this.#found?.tried ?? [])
      Object.assign(tries!, { failed: 0, pauseUntil: undefined });
    this.#found?.pausing.clear();
    return [...forgotten];
  }

  /**
   * Forgets the calls of these lines, except for its cases, its children and what was answered: these stay as people
   * know them.
   */
  cutOff(cut: NonNullable<MarkEntry["cut"]>): void {
    const isCut = ({ line }: Call) => cut.some(([first, last]) => line >= first && line <= last);
    const [gone, kept]: [Call[], Call[]] = [[], []];
    for (const call of this.ended) (isCut(call) ? gone : kept).push(call);
    this.ended = kept;
    for (const call of gone) {
      if (call.kind === "ask" || call.kind === "open_case" || call.kind === "start") {
        call.isLoose = true;
        call.move("loosen");
      } else {
        this.#found?.begun.delete(call);
        if (call.entry?.event !== undefined) this.#found?.events.delete(call.entry.event);
        forgetWhole(call);
      }
    }
  }

  /** What counts for the job as a whole, including what was started over since. */
  #sumUp(entry: RunEntry): void {
    if (entry.type === "call" || entry.type === "attempt") this.spent += entry.cost ?? 0;
    if (entry.type === "status") this.#addStatus(entry.to, entry.at);
    if (entry.type !== "mark") return;
    // The time in which a job is held does not count.
    if (entry.mark === "held") this.#addStatus("stopped", entry.at);
    // What was copied was spent by the other job.
    if (entry.mark === "forked") Object.assign(this, { spent: 0, elapsed: 0, since: undefined });
    if (entry.mark === "resumed") this.since ??= entry.at;
    if (entry.mark !== "restarted") return;
    this.generation++;
    // Work that a crash repeated was still spent; a person who starts over starts at zero.
    if (entry.by === undefined) return;
    this.spent = 0;
    this.elapsed = 0;
    this.began = undefined;
  }

  #add(entry: RunEntry, line: number): void {
    switch (entry.type) {
      case "call":
        this.#addCall(this.#callOf(entry, entry.call, line), entry, line);
        return;
      case "attempt":
        this.#addAttempt(this.#callOf(entry, entry.call ?? "step", line), entry, line);
        return;
      case "begun":
        this.#addBegun(this.#callOf(entry, entry.call, line), entry, line);
        return;
      case "answer":
        this.#addAnswer(entry, line);
        return;
      case "mark":
        this.#addMark(entry, line);
        return;
      case "status":
        if (isTerminal(entry.to)) this.#forgetEnds();
        return;
    }
  }

  #callOf(entry: CallLine, kind: CallKind, line: number): Call {
    const call = this.#findCall(entry, kind);
    this.#onLine?.(call, line);
    return call;
  }

  /** A case is opened by the job, although the entry names the case. */
  #findCall(entry: CallLine, kind: CallKind): Call {
    const scope = this.scope(kind === "open_case" ? undefined : entry.case_id);
    const asked = kind === "ask" ? scope.at(entry.position, kind) : undefined;
    if (asked && entry.n !== undefined) {
      if (asked.name !== entry.name || asked.key !== entry.key) scope.rename(asked, entry, entry.n);
      return asked;
    }
    // Version 0.1.0 gave cases that were opened beside each other one position.
    if (entry.n === undefined)
      return kind === "open_case" ? scope.recorded(kind, entry, 0) : scope.at(entry.position, kind)!;
    const call = scope.recorded(kind, entry, entry.n);
    if (entry.made === undefined || call.made !== undefined) return call;
    call.made = entry.made;
    call.also = entry.also ?? 0;
    if (entry.outside) call.isOutside = true;
    call.begunAt = (entry.type === "begun" ? undefined : entry.started_at) ?? entry.at;
    call.processBegunAt = this.#begunAt;
    return call;
  }

  #addCall(call: Call, entry: CallEntry, line: number): void {
    if (entry.call === "open_case") this.cases.set(entry.name, entry.result as string);
    if (entry.call === "read") this.hasReads = true;
    if (entry.event !== undefined) this.#found!.events.add(entry.event);
    if (!isOldSleep(entry)) {
      this.#end(call, entry.at, line);
      // What a step was given is only for people, and may be long.
      call.entry = entry.input === undefined ? entry : { ...entry, input: undefined };
      if (entry.ends) this.#endAhead(call, { to: "failed", ...entry.ends });
      return;
    }
    this.#begin(call, { ...entry, type: "begun", attempt: 1, until: String(entry.result) }, line);
    this.#found!.oldSleeps.add(call);
  }

  #endAhead(call: Call, end: RunEnd): void {
    call.ends = end;
    this.#found!.ending.add(call);
  }

  /** The job has ended, or was copied: what was about to end it no longer counts. */
  #forgetEnds(): void {
    for (const call of this.#found!.ending) call.ends = undefined;
    this.#found!.ending.clear();
  }

  #begin(call: Call, entry: BegunEntry, line: number): void {
    call.begun = entry;
    call.begunLine = line;
    call.isForgotten = undefined;
    this.#found!.begun.add(call);
    this.scope(call.caseId).place(call);
  }

  #end(call: Call, at: string, line: number): void {
    this.#found!.oldSleeps.delete(call);
    for (const sleep of this.#found!.oldSleeps) {
      // It was over by then.
      if (sleep.begun!.until! <= at) this.#end(sleep, at, line);
    }
    if (call.line === 0) this.ended.push(call);
    call.line = line;
    if (!call.isSettled) call.move("settle");
  }

  #addAttempt(call: Call, { at, attempt, next_at }: AttemptEntry, line: number): void {
    const failed = (call.tries?.failed ?? 0) + 1;
    const pause = next_at === undefined ? 0 : Date.parse(next_at) - Date.parse(at);
    call.tries = { failed, last: attempt, line, pauseUntil: next_at, pause, paused: 0 };
    this.#found!.tried.add(call);
    if (next_at !== undefined) this.#found!.pausing.add(call);
  }

  #addBegun(call: Call, entry: BegunEntry, line: number): void {
    if (call.kind === "ask" && call.position !== entry.position) {
      // The answer before did not fit its form any longer.
      this.scope(call.caseId).askAgain(call, entry.position);
      if (call.isSettled) call.move("reopen");
      call.line = 0;
      this.ended = this.ended.filter((one) => one !== call);
      call.isLoose = undefined;
    }
    if (entry.call !== "step") this.#begin(call, entry, line);
    if (call.tries) call.tries.pauseUntil = undefined;
    this.#found!.pausing.delete(call);
  }

  #addAnswer(entry: AnswerEntry, line: number): void {
    const call = this.scope(entry.case_id).at(Number(entry.question_id), "ask");
    if (!call) return;
    this.#onLine?.(call, line);
    call.answer = entry;
    if (!call.begun?.tells) this.#end(call, entry.at, line);
  }

  #addStatus(to: EntityStatus, at: string): void {
    if (to === "in_progress") this.since ??= at;
    this.began ??= this.since;
    // A job that is stopped waits for its turn, or for an operator.
    if ((!isTerminal(to) && to !== "stopped") || this.since === undefined) return;
    // The clock may have been set back in between.
    this.elapsed += Math.max(0, Date.parse(at) - Date.parse(this.since));
    this.since = undefined;
    this.spans++;
  }

  #addCode({ version, code, reads }: StatusEntry | MarkEntry, from: number): void {
    this.#codes.push({
      from,
      code: { version: version ?? null, fingerprint: code ?? null },
      reads: reads === true,
    });
  }

  #addMark(entry: MarkEntry, line: number): void {
    const { mark } = entry;
    if (mark === "changed") this.changes.set(entry.name ?? "", entry.is === true);
    if (mark === "read") {
      this.hasReads = true;
      Object.assign(this.scope(entry.case_id), { unplacedRead: entry.made ?? 0, hasUnplacedRead: true });
    }
    if (mark === "continued") this.cutOff(entry.cut ?? []);
    if (mark === "forked") {
      this.copiedTo = line;
      this.#forgetEnds();
      this.#interruptions = [];
    }
    if (mark === "retried" || mark === "limits_raised") this.forgetFailures();
    if (mark !== "interrupted") return;
    this.#interruptions.push(line);
    for (const { tries } of this.#found!.pausing) tries!.paused++;
  }
}

/** Forgets that a call was ever made, but not how often it was tried. */
function forgetWhole(call: Call): void {
  forget(call);
  call.isForgotten = undefined;
  call.begun = undefined;
  call.made = undefined;
  call.also = 0;
  call.isOutside = undefined;
}

function closesCase({ entry, kind }: Call): boolean {
  return kind === "close" || (kind === "ask" && entry?.error?.name === "QuestionExpiredError");
}

function forget(call: Call): void {
  const attempts = call.entry?.attempts ?? 0;
  const last = Math.max(attempts, call.tries?.last ?? 0);
  call.tries = { failed: 0, last, line: call.line, pauseUntil: undefined, pause: 0, paused: 0 };
  call.isForgotten = true;
  if (call.isSettled) call.move("reopen");
  call.entry = undefined;
  call.line = 0;
}
