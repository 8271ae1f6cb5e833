import { askCase, endCase, updateCase } from "../../entities/cases.ts";
import { messageOf } from "../../error-text.ts";
import type { Case } from "../../models/case.ts";
import type { CaseNodeUpdateInput } from "../../models/case-node-update.ts";
import type { Question } from "../../models/question.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import type { FieldsInput, FieldValues } from "../define-agent.ts";
import { toMilliseconds } from "../duration.ts";
import { type Fields, readFields } from "../fields.ts";
import { toJsonValue } from "../json-value.ts";
import type { AskOptions, CaseHandle, StepFunction, StepOptions } from "../run-context.ts";
import { CallScope } from "./call-scope.ts";
import { readCost } from "./cost.ts";
import type { JobFacts } from "./job-handle.ts";
import { mayBeLeft } from "./may-be-left.ts";
import type { Run } from "./run.ts";
import { fromRecordedError, QuestionExpiredError } from "./run-errors.ts";
import { runStep } from "./step.ts";

/** A case, with its calls recorded. */
export class RunCase implements CaseHandle {
  readonly id: string;
  readonly ref: string;
  readonly #run: Run;
  readonly #facts: JobFacts;
  readonly #scope: CallScope;

  constructor(run: Run, facts: JobFacts, names: { id: string; ref: string }) {
    this.id = names.id;
    this.ref = names.ref;
    this.#run = run;
    this.#facts = facts;
    this.#scope = new CallScope(run, names.id);
  }

  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = {}): Promise<T> {
    return mayBeLeft(
      runStep({
        scope: this.#scope,
        name,
        fn,
        options,
        show: (unit, shown) => updateCase(unit, this.id, shown),
      }),
    );
  }

  update(update: CaseNodeUpdateInput): Promise<void> {
    return mayBeLeft(this.#update(update));
  }

  ask<F extends FieldsInput>(options: AskOptions<F>): Promise<FieldValues<F>> {
    return mayBeLeft(this.#ask(options));
  }

  close(
    delivery?: Record<string, unknown>,
    options: { readonly cost?: number; readonly name?: string } = {},
  ): Promise<void> {
    return mayBeLeft(
      this.#end("completed", { delivery, cost: options.cost, name: options.name }).then(() => {}),
    );
  }

  fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void> {
    return mayBeLeft(this.#fail(error, delivery));
  }

  read(): Promise<Case> {
    return this.#facts.readCase(this.id);
  }

  async #update(update: CaseNodeUpdateInput): Promise<void> {
    const name = update.name ?? "update";
    const { position, recorded } = this.#scope.take("update", name);
    if (recorded) return;
    const run = this.#run;
    const stored = toJsonValue(update, `The update "${name}"`) as CaseNodeUpdateInput;
    const cost = readCost(stored.cost, `The update "${name}"`);
    await run.enter();
    const charge = cost > 0 ? { cost } : {};
    await run.write(async (unit) => {
      await updateCase(unit, this.id, stored);
      await unit.record(run.jobId, {
        type: "call",
        call: "update",
        ...this.#scope.at,
        position,
        name,
        ...charge,
      });
    });
    run.stopAt(cost > 0 ? run.limits.spend(cost, name) : undefined);
    run.stopAt(stored.error ? run.limits.error(stored.error) : undefined);
    run.stopAt(stored.warning ? run.limits.warning(name) : undefined);
    run.stopAt(run.limits.duration());
  }

  async #ask<F extends FieldsInput>(options: AskOptions<F>): Promise<FieldValues<F>> {
    const fields = readFields(options.fields);
    const { position, recorded } = this.#scope.take("ask", options.question);
    if (recorded?.error) throw expired(recorded.error, options);
    const known = this.#scope.record.answers.get(String(position));
    const answer = known ?? (await this.#waitForAnswer(position, fields, options));
    if (!recorded && this.#facts.onAnswer) await this.#tellAgent(position, options.question, answer);
    const checked = fields.check(answer.answer);
    if (checked.ok) return checked.values as FieldValues<F>;
    throw new TypeError(
      `The answer to "${options.question}" does not fit its fields any more: ${Object.keys(checked.problems).join(", ")}`,
    );
  }

  async #fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void> {
    const message = this.#run.parts.redact(messageOf(error));
    const isNew = await this.#end("failed", { delivery, error: message });
    if (isNew) this.#run.stopAt(this.#run.limits.error(`case "${this.id}" failed: ${message}`));
  }

  async #waitForAnswer<F extends FieldsInput>(
    position: number,
    fields: Fields,
    options: AskOptions<F>,
  ): Promise<AnswerEntry> {
    const run = this.#run;
    const fallback = readDefault(fields, options);
    await run.enter();
    const isUntil = options.deadline instanceof Date;
    const open = async (): Promise<Question> => {
      const asked = run.parts.epoch > 1 ? (await this.read()).question : null;
      if (asked?.id === String(position)) return asked;
      const question: Question = {
        id: String(position),
        question: options.question,
        fields: [...fields.list],
        asked_at: run.parts.clock().toISOString(),
        deadline: readDeadline(options.deadline, run.parts.clock()),
        on_timeout: options.onTimeout ?? "fail",
        default: fallback,
      };
      await run.write(async (unit) => {
        if (run.questions.isAnswered(this.id, question.id)) return;
        await askCase(unit, this.id, { ...question, asked_at: unit.now }, run.limits.spent);
        await unit.record(run.jobId, {
          type: "begun",
          ...{ call: "ask", case_id: this.id, position, name: options.question, attempt: 1 },
        });
      });
      return question;
    };
    return run.questions.ask(this.id, { fields, isUntil, open });
  }

  /** `human_answer` runs before the handler goes on, and once it has, it does not run again. */
  async #tellAgent(position: number, name: string, answer: AnswerEntry): Promise<void> {
    const run = this.#run;
    await run.enter();
    const told = { caseId: this.id, position, name, attempt: 1, cost: 0, isRecorded: false };
    const waiting = run.begin(told);
    if (waiting) await waiting;
    try {
      await run.orEnd(() => this.#facts.onAnswer?.(this.id, answer));
      await run.write((unit) =>
        unit.record(run.jobId, { type: "call", call: "ask", ...this.#scope.at, position, name }),
      );
    } finally {
      run.done(told);
    }
  }

  /** Tells whether this call ended the case, or an earlier run had. */
  async #end(
    to: "completed" | "failed",
    end: { delivery?: Record<string, unknown>; error?: string; cost?: number; name?: string },
  ): Promise<boolean> {
    const { position, recorded } = this.#scope.take("close", to);
    if (recorded) return false;
    const run = this.#run;
    const delivery = toJsonValue(end.delivery, `The delivery of case "${this.id}"`) as Case["final_delivery"];
    const cost = readCost(end.cost, `The end of case "${this.id}"`);
    await run.enter();
    await run.write(async (unit) => {
      await endCase(unit, this.id, { to, delivery, error: end.error, cost: end.cost, name: end.name });
      await unit.record(run.jobId, {
        ...{ type: "call", call: "close", ...this.#scope.at, position, name: to },
        ...(cost > 0 && { cost }),
        ...(end.error !== undefined && { error: { name: "Error", message: end.error } }),
      });
    });
    run.openCases.delete(this.id);
    run.stopAt(cost > 0 ? run.limits.spend(cost, end.name ?? "close") : undefined);
    return true;
  }
}

function readDeadline(deadline: AskOptions<FieldsInput>["deadline"], now: Date): string | null {
  if (deadline === undefined) return null;
  if (deadline instanceof Date) return deadline.toISOString();
  return new Date(now.getTime() + toMilliseconds(deadline)).toISOString();
}

/** A default that does not fit the fields is a mistake to learn of at once, not at the deadline. */
function readDefault(fields: Fields, options: AskOptions<FieldsInput>): Record<string, unknown> | null {
  if (options.onTimeout !== "default") return options.default ?? null;
  const checked = fields.check(options.default ?? {});
  if (checked.ok) return checked.stored;
  const problems = Object.entries(checked.problems).map(([name, problem]) => `${name} ${problem}`);
  throw new TypeError(`The default answer to "${options.question}" is not valid: ${problems.join("; ")}`);
}

function expired(
  error: { name: string; message: string },
  { onTimeout = "fail" }: AskOptions<FieldsInput>,
): Error {
  if (error.name !== "QuestionExpiredError") return fromRecordedError(error);
  return new QuestionExpiredError(error.message, onTimeout);
}
