import { type CheckedFields, describeProblems, type Fields, readFields } from "../../agents/fields.ts";
import type { FieldsInput, FieldValues } from "../../agents/fields-input.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import type {
  AskOptions,
  CallOptions,
  CaseHandle,
  StepFunction,
  StepOptions,
} from "../../agents/run-context.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { LONGEST_MESSAGE, messageOf, shorten } from "../../base/error-text.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { askCase, endCase, updateCase } from "../../entities/cases.ts";
import type { Case } from "../../models/case.ts";
import type { CaseNodeUpdateInput } from "../../models/case-node-update.ts";
import type { Question } from "../../models/question.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import type { Call } from "./call.ts";
import { CallScope } from "./call-scope.ts";
import { readCost } from "./cost.ts";
import type { JobFacts } from "./job-handle.ts";
import { mayBeLeft } from "./may-be-left.ts";
import type { Run } from "./run.ts";
import { fromRecordedError, QuestionExpiredError } from "./run-errors.ts";
import { runStep, type StepCall } from "./step.ts";

/** A case, with its calls recorded. */
export class RunCase implements CaseHandle {
  readonly id: string;
  readonly ref: string;
  readonly #run: Run;
  readonly #facts: JobFacts;
  readonly #scope: CallScope;
  #isAsking = false;

  constructor(run: Run, facts: JobFacts, names: { id: string; ref: string }) {
    this.id = names.id;
    this.ref = names.ref;
    this.#run = run;
    this.#facts = facts;
    this.#scope = new CallScope(run, names.id);
  }

  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = {}): Promise<T> {
    const show: StepCall<T>["show"] = (unit, shown) => updateCase(unit, this.id, shown);
    return runStep({ scope: this.#scope, name, fn, options, show });
  }

  update(update: CaseNodeUpdateInput, options: CallOptions = {}): Promise<void> {
    return mayBeLeft(this.#update(update, options));
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

  async #update(update: CaseNodeUpdateInput, { key }: CallOptions): Promise<void> {
    const name = update.name ?? "update";
    const run = this.#run;
    const given = toJsonValue(update, `The update "${name}"`) as CaseNodeUpdateInput;
    for (const part of ["name", "error"] as const) {
      if (typeof (given[part] ?? "") !== "string")
        throw new TypeError(`The ${part} of the update "${name}" must be text`);
    }
    const stored = given.error
      ? { ...given, error: shorten(run.parts.redact(given.error), LONGEST_MESSAGE) }
      : given;
    const cost = readCost(stored.cost, `The update "${name}"`);
    const call = this.#scope.take("update", name, key);
    if (!call.isDue) {
      await run.enter(call);
      const charge = cost > 0 ? { cost } : {};
      await run.write(async (unit) => {
        await updateCase(unit, this.id, stored);
        await unit.record(run.jobId, { type: "call", call: "update", ...call.fields, ...charge });
        unit.afterwards((seq) => run.deliveries.due(call, seq));
      });
      run.stopAt(cost > 0 ? run.limits.spend(cost, name) : undefined);
      run.stopAt(stored.error ? run.limits.error(stored.error) : undefined);
      run.stopAt(stored.warning ? run.limits.warning(name) : undefined);
      run.stopAt(run.limits.duration());
    }
    await run.delivered(call);
  }

  async #ask<F extends FieldsInput>(options: AskOptions<F>): Promise<FieldValues<F>> {
    const run = this.#run;
    const fields = readFields(options.fields);
    const fallback = readDefault(fields, options);
    // It is of no use where the answer is recorded.
    if (fallback instanceof Promise) fallback.catch(() => {});
    if (this.#isAsking) {
      throw new TypeError(
        `Case "${this.id}" awaits an answer already: ask the second question in another case`,
      );
    }
    const call = this.#scope.take("ask", options.question, options.key);
    this.#isAsking = true;
    let checking = this.#check(call, fields);
    try {
      const recorded = call.takeEntry();
      if (!call.isDue && !call.answer) {
        const onAnswer = () => {
          checking = this.#check(call, fields);
          return checking;
        };
        const known = fallback instanceof Promise ? await fallback : fallback;
        await this.#waitForAnswer(call, { fields, options, fallback: known, onAnswer });
      }
      if (!call.isDue) await this.#tellAgent(call, call.answer!);
      await run.delivered(call);
      const error = recorded?.error ?? call.takeEntry()?.error;
      if (error) throw expired(error, options);
      // Version 0.1.0 did not record whether the agent is told of answers.
      const mayBeUntold = call.isOld && !recorded && this.#facts.onAnswer;
      if (mayBeUntold) await run.orEnd(() => this.#facts.onAnswer?.(this.id, call.answer!));
    } finally {
      this.#isAsking = false;
    }
    // It may have been answered before it could be asked.
    checking ??= this.#check(call, fields)!;
    const checked = checking instanceof Promise ? await checking : checking;
    if (checked.ok) return checked.values as FieldValues<F>;
    throw new TypeError(
      `The answer to "${options.question}" no longer matches its fields: ${Object.keys(checked.problems).join(", ")}`,
    );
  }

  /**
   * Checks an answer before it is given to the handler, which goes on at once when it gets it: so its order among other
   * calls is that of the record, however long a schema takes.
   */
  #check(call: Call, fields: Fields): MaybePromise<CheckedFields> | undefined {
    if (!call.answer) return undefined;
    let checking: MaybePromise<CheckedFields>;
    try {
      checking = fields.check(call.answer.answer);
    } catch (error) {
      checking = Promise.reject(error);
    }
    if (!(checking instanceof Promise)) return checking;
    call.isHeld = true;
    const ready = () => this.#run.deliveries.ready(call);
    checking.then(ready, ready);
    return checking;
  }

  async #fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void> {
    const message = shorten(this.#run.parts.redact(messageOf(error)), LONGEST_MESSAGE);
    const isNew = await this.#end("failed", { delivery, error: message });
    if (isNew) this.#run.stopAt(this.#run.limits.error(`case "${this.id}" failed: ${message}`));
  }

  /** Waits until the answer to a question is stored, or what became of it instead. */
  async #waitForAnswer(call: Call, { fields, options, fallback, onAnswer }: QuestionParts): Promise<void> {
    const run = this.#run;
    await run.enter(call);
    if (call.answer) return;
    const id = String(call.position);
    const isUntil = options.deadline instanceof Date;
    const tells = this.#facts.onAnswer !== undefined;
    const open = async (): Promise<Question> => {
      const asked = run.parts.epoch > 1 ? (await this.read()).question : null;
      if (asked?.id === id) return asked;
      const question: Question = {
        id,
        question: options.question,
        fields: [...fields.list],
        asked_at: run.parts.clock().toISOString(),
        deadline: readDeadline(options.deadline, run.parts.clock()),
        on_timeout: options.onTimeout ?? "fail",
        default: fallback,
      };
      await run.write(async (unit) => {
        if (call.answer) return;
        await askCase(unit, this.id, { ...question, asked_at: unit.now }, run.limits.spent);
        await unit.record(run.jobId, {
          ...{ type: "begun", call: "ask", ...call.fields, attempt: 1 },
          ...(tells && { tells }),
        });
      });
      return question;
    };
    await run.questions.ask(call, { fields, isUntil, tells, open, onAnswer });
  }

  /** `human_answer` runs before the handler goes on, and once it has, it does not run again. */
  async #tellAgent(call: Call, answer: AnswerEntry): Promise<void> {
    const run = this.#run;
    await run.enter(call);
    const told = { call, name: call.name, attempt: 1, cost: 0, startedAt: "", isRecorded: false };
    const waiting = run.activity.begin(told);
    if (waiting) await waiting;
    try {
      await run.orEnd(() => this.#facts.onAnswer?.(this.id, answer));
      await run.write(async (unit) => {
        await unit.record(run.jobId, { type: "call", call: "ask", ...call.fields });
        unit.afterwards((seq) => run.deliveries.due(call, seq));
      });
    } finally {
      run.activity.done(told);
    }
  }

  /** Tells whether this call ended the case, or an earlier run had. */
  async #end(
    to: "completed" | "failed",
    end: { delivery?: Record<string, unknown>; error?: string; cost?: number; name?: string },
  ): Promise<boolean> {
    const run = this.#run;
    const delivery = toJsonValue(end.delivery, `The delivery of case "${this.id}"`) as Case["final_delivery"];
    const cost = readCost(end.cost, `The end of case "${this.id}"`);
    const call = this.#scope.take("close", to);
    const isNew = !call.isDue;
    if (isNew) {
      await run.enter(call);
      await run.write(async (unit) => {
        await endCase(unit, this.id, { to, delivery, error: end.error, cost: end.cost, name: end.name });
        await unit.record(run.jobId, {
          ...{ type: "call", call: "close", ...call.fields },
          ...(cost > 0 && { cost }),
          ...(end.error !== undefined && { error: { name: "Error", message: end.error } }),
        });
        unit.afterwards((seq) => run.deliveries.due(call, seq));
      });
      run.openCases.delete(this.id);
      run.stopAt(cost > 0 ? run.limits.spend(cost, end.name ?? "close") : undefined);
    }
    await run.delivered(call);
    return isNew;
  }
}

interface QuestionParts {
  readonly fields: Fields;
  readonly options: Omit<AskOptions<FieldsInput>, "default">;
  readonly fallback: Record<string, unknown> | null;
  readonly onAnswer: () => MaybePromise<unknown>;
}

function readDeadline(deadline: AskOptions<FieldsInput>["deadline"], now: Date): string | null {
  if (deadline === undefined) return null;
  if (deadline instanceof Date) return deadline.toISOString();
  return new Date(now.getTime() + toMilliseconds(deadline)).toISOString();
}

/** A default that does not fit the fields is a mistake to learn of at once, not at the deadline. */
function readDefault<F extends FieldsInput>(
  fields: Fields,
  options: AskOptions<F>,
): MaybePromise<Record<string, unknown> | null> {
  const given = options.default as Record<string, unknown> | undefined;
  if (options.onTimeout !== "default") return given ?? null;
  return andThen(fields.check(given ?? {}), (checked) => {
    if (checked.ok) return checked.stored;
    throw new TypeError(
      `The default answer to "${options.question}" is not valid: ${describeProblems(checked.problems)}`,
    );
  });
}

function expired(
  error: { name: string; message: string },
  { onTimeout = "fail" }: Pick<AskOptions<FieldsInput>, "onTimeout">,
): Error {
  if (error.name !== "QuestionExpiredError") return fromRecordedError(error);
  return new QuestionExpiredError(error.message, onTimeout);
}
