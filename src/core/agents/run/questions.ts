import { answerCase, endCase } from "../../entities/cases.ts";
import type { Question } from "../../models/question.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import type { Fields } from "../fields.ts";
import type { Run } from "./run.ts";
import { QuestionExpiredError } from "./run-errors.ts";

/** A question that the handler waits for. */
interface Waiting {
  readonly fields: Fields;
  readonly settle: (answer: AnswerEntry | Error) => void;
}

interface Asking {
  readonly fields: Fields;
  /** Whether the deadline was given as a time of day, not as a duration. */
  readonly isUntil: boolean;
  /** Stores the question, or finds that it is stored. */
  readonly open: () => Promise<Question>;
}

/** The open questions of a run, by case. */
export class Questions {
  readonly #run: Run;
  readonly #waiting = new Map<string, Waiting>();
  /** Answers that came before the handler asked. */
  readonly #early = new Map<string, AnswerEntry>();

  constructor(run: Run) {
    this.#run = run;
  }

  /** Inputs of the question that a case's handler waits with, as it declares them. */
  fieldsOf(caseId: string): Fields | undefined {
    return this.#waiting.get(caseId)?.fields;
  }

  /** Whether the answer came before the handler asked. */
  isAnswered(caseId: string, questionId: string): boolean {
    return this.#early.has(key(caseId, questionId));
  }

  /** Waits for the answer to a case's question. */
  async ask(caseId: string, { fields, isUntil, open }: Asking): Promise<AnswerEntry> {
    if (this.#waiting.has(caseId)) {
      throw new TypeError(
        `Case "${caseId}" awaits an answer already: ask the second question in another case`,
      );
    }
    let callOff = () => {};
    const answer = new Promise<AnswerEntry>((resolve, reject) => {
      const settle = (one: AnswerEntry | Error) => (one instanceof Error ? reject(one) : resolve(one));
      this.#waiting.set(caseId, { fields, settle });
    });
    answer.catch(() => {});
    try {
      const question = await open();
      const early = this.#early.get(key(caseId, question.id));
      if (early) return early;
      callOff = this.#watch(caseId, question, isUntil);
      return await this.#run.wait(() => answer);
    } finally {
      callOff();
      this.#waiting.delete(caseId);
    }
  }

  /** An answer was stored. */
  answered(entry: AnswerEntry): void {
    this.#early.set(key(entry.case_id, entry.question_id), entry);
    this.#waiting.get(entry.case_id)?.settle(entry);
  }

  /** The question was taken away by an operator. */
  withdraw(caseId: string, message: string): void {
    this.#waiting.get(caseId)?.settle(new Error(message));
  }

  #watch(caseId: string, question: Question, isUntil: boolean): () => void {
    if (question.deadline === null) return () => {};
    const run = this.#run;
    const now = (): number => run.parts.clock().getTime();
    const deadline = Date.parse(question.deadline);
    let callOff = () => {};
    const watch = (from: number): void => {
      callOff = run.after(deadline - from, () => {
        if (isUntil && now() < deadline) return watch(now());
        this.#expire(caseId, question).catch((error: unknown) => {
          if (!run.isSealed) run.parts.log.error("a question could not be closed at its deadline", { error });
        });
      });
    };
    // Where the clock was set back, so many minutes are not more than they were to be.
    watch(isUntil ? now() : Math.max(now(), Date.parse(question.asked_at)));
    return () => callOff();
  }

  async #expire(caseId: string, question: Question): Promise<void> {
    const run = this.#run;
    const settled = await run.write(async (unit): Promise<AnswerEntry | Error | undefined> => {
      const item = await unit.tx.get("Case", caseId);
      // Somebody answered in the very last moment.
      if (item?.question?.id !== question.id || item.status !== "awaiting") return undefined;
      if (question.on_timeout === "default") {
        const answer = { answer: question.default ?? {}, message: null, by: "deadline" };
        await answerCase(unit, caseId, answer);
        return { type: "answer", at: unit.now, case_id: caseId, question_id: question.id, ...answer };
      }
      const error = new QuestionExpiredError(
        `Nobody answered "${question.question}" before ${question.deadline}`,
        question.on_timeout,
      );
      const to = question.on_timeout === "cancel" ? "cancelled" : "failed";
      await endCase(unit, caseId, { to, error: error.message, name: "deadline" });
      await unit.record(run.jobId, {
        type: "call",
        call: "ask",
        case_id: caseId,
        position: Number(question.id),
        name: question.question,
        error: { name: error.name, message: error.message },
      });
      return error;
    });
    if (!settled) return;
    if (settled instanceof Error) {
      run.openCases.delete(caseId);
      const end = question.on_timeout === "fail" ? run.limits.error(settled.message) : undefined;
      this.#waiting.get(caseId)?.settle(settled);
      if (end) run.end({ ...end, reason: "question_expired", message: settled.message });
      return;
    }
    this.answered(settled);
  }
}

function key(caseId: string, questionId: string): string {
  return `${questionId} ${caseId}`;
}
