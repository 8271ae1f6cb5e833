import type { Fields } from "../../agents/fields.ts";
import type { Logger } from "../../base/log.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { answerCase, endCase } from "../../entities/change-case.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { StoredCase } from "../../models/case.ts";
import type { Question } from "../../models/question.ts";
import type { AnswerEntry, CallEntry } from "../../models/run-entry.ts";
import type { Activity } from "./activity.ts";
import type { Call } from "./call.ts";
import type { Limits } from "./limits.ts";
import type { ReplayGate } from "./replay-gate.ts";
import type { RunClock } from "./run-clock.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { RunLife } from "./run-life.ts";
import type { RunRecord } from "./run-record.ts";
import type { WaitEnd } from "./wait.ts";

/** What questions need of the run that asks them. */
interface AskingRun {
  readonly jobId: string;
  readonly log: Logger;
  readonly parts: {
    readonly clock: () => Date;
    readonly wokenAt?: number | undefined;
  };
  readonly life: RunLife;
  readonly record: RunRecord;
  readonly gate: ReplayGate;
  readonly activity: Activity;
  readonly clock: RunClock;
  readonly ledger: RunLedger;
  readonly limits: Limits;
  readonly openCases: Set<string>;
  readonly isStarting: boolean;
  readonly isOver: boolean;
  readonly onlyWaits: boolean;
  readonly isSealed: boolean;
}

/** A question that the handler waits for. */
interface Waiting {
  readonly call: Call;
  readonly fields: Fields;
  readonly tells: boolean;
  readonly settle: () => void;
  /** Whether the question is stored. */
  isAsked: boolean;
  isWithdrawn?: boolean;
}

interface Asking {
  readonly fields: Fields;
  /** Whether the deadline was given as a time of day, not as a duration. */
  readonly isUntil: boolean;
  /** Whether the agent is notified of the answer before the handler continues. */
  readonly tells: boolean;
  /** Processes an answer before it is delivered; a failure is reported there. */
  readonly onAnswer: () => MaybePromise<unknown>;
  /** Stores the question, or finds that it is stored. */
  readonly open: () => Promise<Question>;
}

/** The open questions of a run, by case. */
export class Questions {
  readonly #run: AskingRun;
  readonly #waiting = new Map<string, Waiting>();
  /** Called when the run asks, only waits, or is over. */
  readonly #onTurn: (() => void)[] = [];
  /** Answers that were stored while the record of the run was being read: it may lack them. */
  #early: { readonly entry: AnswerEntry; readonly seq: number }[] = [];

  constructor(run: AskingRun) {
    this.#run = run;
  }

  /** The record is read: the run gets the answers that were stored meanwhile. */
  begin(): void {
    for (const { entry, seq } of this.#early) this.answered(entry, seq);
    this.#early = [];
  }

  /** Inputs of the question that a case's handler waits with, as it declares them. */
  fieldsOf(caseId: string): Fields | undefined {
    return this.#waiting.get(caseId)?.fields;
  }

  /** Resolves once the handler waits with a question of this case, or only waits, or the run is over. */
  async untilAsked(caseId: string): Promise<void> {
    const run = this.#run;
    while (!run.isOver && !run.onlyWaits && !this.fieldsOf(caseId))
      await new Promise<void>((resolve) => this.#onTurn.push(resolve));
  }

  /** A question is open, or the run only waits, or is over. */
  turned(): void {
    for (const resolve of this.#onTurn.splice(0)) resolve();
  }

  /** Waits until the answer to a case's question, or its end without one, is stored. */
  async ask(call: Call, { fields, isUntil, tells, onAnswer, open }: Asking): Promise<void> {
    const caseId = call.caseId!;
    let settle = () => {};
    const settled = new Promise<void>((resolve) => {
      settle = resolve;
    });
    // While it waits, another job may have this one's slot.
    call.move("hold");
    const waiting: Waiting = { call, fields, tells, settle, isAsked: false };
    this.#waiting.set(caseId, waiting);
    this.turned();
    let cancel = () => {};
    try {
      const question = await open();
      waiting.isAsked = true;
      cancel = this.#watch(caseId, question, isUntil);
      const end = this.#endOf(question, isUntil);
      const isOpen = async (unit: Unit) => (await unit.tx.get("Case", caseId))?.question?.id === question.id;
      await this.#run.activity.wait(() => settled, { for: "answer", end, isOpen });
      const pending = onAnswer();
      if (pending instanceof Promise) await this.#run.life.orEnd(() => pending.catch(() => {}));
    } finally {
      cancel();
      this.#waiting.delete(caseId);
      this.#run.gate.release(call);
    }
  }

  /** An answer is stored just now. */
  answered(entry: AnswerEntry, seq: number): void {
    if (this.#run.isStarting) {
      this.#early.push({ entry, seq });
      return;
    }
    const waiting = this.#waiting.get(entry.case_id);
    const isWaiting = String(waiting?.call.position) === entry.question_id;
    const call = isWaiting ? waiting!.call : this.#recorded(entry);
    if (!call || call.answer) return;
    call.answer = entry;
    const tells = isWaiting ? waiting!.tells : call.begun?.tells;
    if (!tells) this.#run.gate.settle(call, seq);
    if (isWaiting) waiting!.settle();
  }

  /** Of the questions that it waits with, those that are closed: what withdraws each, unless it was answered. */
  async findClosed(
    find: (caseId: string) => Promise<Pick<StoredCase, "question" | "status"> | undefined>,
  ): Promise<(() => Promise<void>)[]> {
    const closed: (() => Promise<void>)[] = [];
    for (const [caseId, waiting] of [...this.#waiting]) {
      const { call, isAsked } = waiting;
      if (!isAsked || call.answer || call.isSettled) continue;
      const asked = String(call.position);
      const item = await find(caseId);
      if (item?.question?.id === asked) continue;
      const what = item ? `was set to ${item.status} by an operator` : "was deleted";
      closed.push(() => this.#withdraw(waiting, `Case "${caseId}" ${what}`));
    }
    return closed;
  }

  /** An operator has withdrawn the question: the handler is notified, unless the run ends first. */
  async withdraw(caseId: string, message: string): Promise<void> {
    const waiting = this.#waiting.get(caseId);
    if (waiting) await this.#withdraw(waiting, message);
  }

  async #withdraw(waiting: Waiting, message: string): Promise<void> {
    const run = this.#run;
    const { caseId } = waiting.call;
    // The case may have another question by now, also one of the same call.
    const isOver = () => this.#waiting.get(caseId!) !== waiting;
    if (waiting.isWithdrawn || isOver()) return;
    waiting.isWithdrawn = true;
    try {
      await run.ledger.write(async (unit) => {
        if (isOver() || waiting.call.isSettled || waiting.call.answer) return;
        await this.#recordError(unit, waiting.call, { name: "Error", message });
      });
    } catch (error) {
      if (!run.isSealed) throw error;
    }
  }

  /** A question of a former run, which the handler has not asked again. */
  #recorded({ case_id, question_id }: AnswerEntry): Call | undefined {
    return this.#run.record.scope(case_id).at(Number(question_id), "ask");
  }

  async #recordError(
    unit: Unit,
    call: Call,
    error: NonNullable<CallEntry["error"]>,
    ends: Pick<CallEntry, "ends"> = {},
  ): Promise<void> {
    const run = this.#run;
    const entry = { type: "call", call: "ask", ...call.fields, error, ...ends } as const;
    await unit.record(run.jobId, entry);
    unit.afterwards((seq) => {
      call.entry = { ...entry, at: unit.now };
      run.gate.settle(call, seq);
      this.#waiting.get(call.caseId!)?.settle();
    });
  }

  #watch(caseId: string, question: Question, isUntil: boolean): () => void {
    if (question.deadline === null) return () => {};
    const run = this.#run;
    const now = (): number => run.parts.clock().getTime();
    const deadline = Date.parse(question.deadline);
    let cancel = () => {};
    const watch = (from: number): void => {
      cancel = run.clock.after(deadline - from, () => {
        if (isUntil && now() < deadline) return watch(now());
        this.#expire(caseId, question).catch((error: unknown) => {
          if (!run.isSealed) run.log.error("a question could not be closed at its deadline", { error });
        });
      });
    };
    watch(isUntil ? now() : this.#timeOf(question));
    return () => cancel();
  }

  #endOf(question: Question, isUntil: boolean): WaitEnd | undefined {
    if (question.deadline === null) return undefined;
    const at = Date.parse(question.deadline);
    return { at, left: isUntil ? undefined : at - this.#timeOf(question) };
  }

  /** Where the clock was set back, so many minutes are not more than they were to be. */
  #timeOf({ asked_at }: Question): number {
    const { clock, wokenAt = 0 } = this.#run.parts;
    return Math.max(clock().getTime(), Date.parse(asked_at), wokenAt);
  }

  async #expire(caseId: string, question: Question): Promise<void> {
    const run = this.#run;
    const waiting = this.#waiting.get(caseId);
    if (!waiting) return;
    const message = `Nobody answered "${question.question}" before ${question.deadline}`;
    await run.ledger.write(async (unit) => {
      const item = await unit.tx.get("Case", caseId);
      // Somebody answered in the very last moment.
      if (item?.question?.id !== question.id || item.status !== "awaiting") return;
      if (question.on_timeout === "default") {
        const answer = { answer: question.default ?? {}, message: null, by: "deadline" };
        await answerCase(unit, caseId, answer);
        const place = { case_id: caseId, question_id: question.id };
        unit.afterwards((seq) => this.answered({ type: "answer", at: unit.now, ...place, ...answer }, seq));
        return;
      }
      const to = question.on_timeout === "cancel" ? "cancelled" : "failed";
      await endCase(unit, caseId, { to, error: message, name: "deadline" });
      const expired = { name: "QuestionExpiredError", message };
      const isFailure = question.on_timeout === "fail";
      const ends =
        isFailure && run.limits.endsBy(unit, waiting.call, { name: question.question, expired: message });
      await this.#recordError(unit, waiting.call, expired, ends || {});
      unit.afterwards(() => run.openCases.delete(caseId));
    });
  }
}
