import { callModel } from "../../agents/call-model.ts";
import { type CheckedFields, describeProblems, type Fields, readFields } from "../../agents/fields.ts";
import type { FieldsInput, FieldValues } from "../../agents/fields-input.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import { assertAskOptions, assertKnown } from "../../agents/known-options.ts";
import type {
  AskOptions,
  CallOptions,
  CaseHandle,
  ModelCall,
  ModelOptions,
  StepFunction,
  StepOptions,
} from "../../agents/run-context.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { LONGEST_MESSAGE, messageOf, shorten } from "../../base/error-text.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { askCase, endCase, rewordCase, updateCase } from "../../entities/change-case.ts";
import type { Unit } from "../../entities/ledger.ts";
import { addSpending } from "../../entities/spending.ts";
import type { Case } from "../../models/case.ts";
import type { CaseNodeUpdateInput } from "../../models/case-node-update.ts";
import type { FileValue } from "../../models/file.ts";
import type { Job } from "../../models/job.ts";
import type { Question } from "../../models/question.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import { type Call, mayBeLeft } from "./call.ts";
import { CallScope } from "./call-scope.ts";
import type { ChildrenOfJob } from "./child-handle.ts";
import type { EventsOfJob } from "./event-wait.ts";
import { readCost } from "./limits.ts";
import { artifactStep, assertOwn, checkFiles, openOf } from "./made-files.ts";
import { checkPeople, peopleOf, toPeople } from "./people.ts";
import { readStored } from "./read.ts";
import type { Run } from "./run.ts";
import { fromRecordedError, QuestionExpiredError } from "./run-errors.ts";
import { type GivenStep, NO_OPTIONS, runStep, type StepCall } from "./step.ts";

/** What a job's handle needs to know besides its run. */
export interface JobFacts {
  readonly context: Job["job_context"];
  readonly readJob: () => Promise<Job>;
  readonly readCase: (id: string) => Promise<Case>;
  /** Calls the agent's `human_answer`, where there is one. */
  readonly onAnswer: ((caseId: string, answer: AnswerEntry) => Promise<void>) | undefined;
  readonly children: () => ChildrenOfJob;
  readonly events: EventsOfJob;
  /** When the job was created, ISO 8601. */
  readonly createdAt: string;
}

/** Why a question is asked again. */
const CHANGED = "Its form has changed since it was answered, and the answer no longer matches";
const REFUSED = "The last answer was refused";

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

  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = NO_OPTIONS): Promise<T> {
    return this.stepOf({ name, fn, options });
  }

  /** The same for a handler in another process, which may have started the step. */
  stepOf<T>(step: GivenStep<T>): Promise<T> {
    const show: StepCall<T>["show"] = (unit, shown) => updateCase(unit, this.id, shown);
    return runStep({ scope: this.#scope, show, ...step });
  }

  artifact(
    name: string,
    file: FileValue,
    options: { readonly title?: string } & CallOptions = {},
  ): Promise<FileValue> {
    return this.stepOf(artifactStep(this.#run, name, file, options));
  }

  model<Request, Answer>(
    name: string,
    request: Request,
    call: ModelCall<Request, Answer>,
    options?: ModelOptions<Answer>,
  ): Promise<Answer> {
    const open = (file: FileValue) => openOf(this.#run, file);
    return callModel({ step: this.step.bind(this), open }, name, request, call, options);
  }

  update(update: CaseNodeUpdateInput, options: CallOptions = {}): Promise<void> {
    return mayBeLeft(this.#update(update, options));
  }

  ask<F extends FieldsInput>(
    ...given: [name: string, options: AskOptions<F>] | [options: AskOptions<F>]
  ): Promise<FieldValues<F>> {
    return mayBeLeft(given.length === 1 ? this.#ask(...given) : this.#ask(given[1], given[0]));
  }

  close(
    delivery?: Record<string, unknown>,
    options: { readonly cost?: number; readonly name?: string } = {},
  ): Promise<void> {
    return mayBeLeft(this.#close(delivery, options));
  }

  fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void> {
    return mayBeLeft(this.#fail(error, delivery));
  }

  read(): Promise<Case> {
    return this.readIn(this.#run.activity.readsInStep);
  }

  /** Reads it in a step's function, or outside of any. */
  readIn(isInStep: boolean | undefined): Promise<Case> {
    return readStored(this.#scope, () => this.#facts.readCase(this.id), isInStep);
  }

  async #close(
    delivery: Record<string, unknown> | undefined,
    options: { readonly cost?: number; readonly name?: string },
  ): Promise<void> {
    if (this.#run.gate.isLive) assertKnown("close", options, `the end of case "${this.ref}"`);
    await this.#end("completed", { delivery, cost: options.cost, name: options.name });
  }

  async #update(update: CaseNodeUpdateInput, options: CallOptions): Promise<void> {
    const name = update.name ?? "update";
    const run = this.#run;
    if (run.gate.isLive) {
      assertKnown("update", options, `the update "${name}"`);
      assertKnown("entry", update, `the entry of the update "${name}"`);
    }
    const given = toJsonValue(update, `The update "${name}"`) as CaseNodeUpdateInput;
    for (const part of ["name", "error"] as const) {
      if (typeof (given[part] ?? "") !== "string")
        throw new TypeError(`The ${part} of the update "${name}" must be text`);
    }
    const stored = given.error
      ? { ...given, error: shorten(run.parts.redact(given.error), LONGEST_MESSAGE) }
      : given;
    const cost = readCost(stored.cost, `The update "${name}"`);
    const call = this.#scope.take("update", name, options.key);
    if (!call.isSettled) {
      await run.enter(call);
      const charge = cost > 0 ? { cost } : {};
      await run.ledger.write(async (unit) => {
        await updateCase(unit, this.id, stored);
        const { error, warning } = stored;
        const ends = run.limits.endsBy(unit, call, { name, cost, error, warning });
        unit.afterwards(() => run.limits.spend(cost));
        await unit.record(run.jobId, { type: "call", call: "update", ...call.fields, ...charge, ...ends });
        await addSpending(unit, { ...run.spender, cost });
        unit.afterwards((seq) => run.gate.settle(call, seq));
      });
      run.limits.stopAt(call.ends ?? run.limits.duration());
    }
    await run.delivered(call);
  }

  async #ask<F extends FieldsInput>(options: AskOptions<F>, name?: string): Promise<FieldValues<F>> {
    const run = this.#run;
    if (name === "") throw new TypeError("ask was called with an empty name");
    if (run.gate.isLive) assertAskOptions(name ?? options.question, options);
    const fields = readFields(options.fields);
    checkPeople(options);
    checkFiles(options);
    const fallback = readDefault(fields, options);
    // It is of no use where the answer is recorded.
    if (fallback instanceof Promise) fallback.catch(() => {});
    if (this.#isAsking) {
      throw new TypeError(
        `Case "${this.id}" is already awaiting an answer: ask the second question in another case`,
      );
    }
    const call = this.#scope.take("ask", options.question, options.key ?? name);
    this.#isAsking = true;
    let checking = this.#checkRecorded(call, fields);
    try {
      if (checking instanceof Promise) {
        const pending = checking.then(() => {}).catch(() => {});
        await run.life.orEnd(() => pending);
      }
      if (!call.answer) checking = undefined;
      const recorded = call.takeEntry();
      if (!call.isSettled && !call.answer) {
        const onAnswer = () => {
          const checked = this.#check(call, fields);
          const judge = (one: CheckedFields | undefined) => this.#judge(call, one, REFUSED);
          checking = checked instanceof Promise ? checked.then(judge) : judge(checked);
          return checking;
        };
        const known = fallback instanceof Promise ? await fallback : fallback;
        // Another instance checks an answer by its form alone: where the schema refuses it, the question is asked again.
        while (!call.isSettled && !call.answer)
          await this.#waitForAnswer(call, { fields, options, fallback: known, onAnswer });
      } else if (call.isRenamed) this.#recordName(call);
      if (!call.isSettled) await this.#notifyAgent(call, call.answer!);
      await run.delivered(call);
      const error = recorded?.error ?? call.takeEntry()?.error;
      if (error) throw expired(error, options);
      // Version 0.1.0 did not record whether the agent is notified of answers.
      const mayBeUntold = call.isOld && !recorded && this.#facts.onAnswer;
      if (mayBeUntold) await run.life.orEnd(() => this.#facts.onAnswer?.(this.id, call.answer!));
    } finally {
      this.#isAsking = false;
    }
    // It may have been answered before it could be asked.
    checking ??= this.#check(call, fields);
    const checked = (checking instanceof Promise ? await checking : checking)!;
    if (checked.ok) return checked.values as FieldValues<F>;
    throw new TypeError(
      `The answer to "${options.question}" does not match its fields: ${describeProblems(checked.problems)}`,
    );
  }

  /**
   * Checks an answer before it is passed to the handler, which continues immediately: so its order among
   * other calls is that of the record, however long a schema takes. An invalid answer does not count: the
   * question is asked again.
   */
  #checkRecorded(call: Call, fields: Fields): MaybePromise<CheckedFields | undefined> {
    const checking = this.#check(call, fields);
    const judge = (checked: CheckedFields | undefined) => this.#judge(call, checked, CHANGED);
    if (!(checking instanceof Promise)) return judge(checking);
    call.move("hold");
    const ready = () => this.#run.gate.release(call);
    // A failure is reported once the answer is passed to the handler.
    return checking.then(judge).finally(ready);
  }

  /** Takes an answer back that does not match, so that the question is asked again, with a note that says `why`. */
  #judge(call: Call, checked: CheckedFields | undefined, why: string): CheckedFields | undefined {
    if (!checked || (checked.ok && (call.note === undefined || why !== CHANGED))) return checked;
    if (!checked.ok) call.note = `${why}: ${describeProblems(checked.problems)}`;
    this.#run.gate.reopen(call);
    this.#scope.askAgain(call);
    return undefined;
  }

  #check(call: Call, fields: Fields): MaybePromise<CheckedFields> | undefined {
    if (!call.answer) return undefined;
    try {
      return fields.check(call.answer.answer);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async #fail(error: string | Error, delivery?: Record<string, unknown>): Promise<void> {
    const message = shorten(this.#run.parts.redact(messageOf(error)), LONGEST_MESSAGE);
    await this.#end("failed", { delivery, error: message });
  }

  /** Waits until the answer to a question is stored, or what became of it instead. */
  async #waitForAnswer(call: Call, parts: QuestionParts): Promise<void> {
    const run = this.#run;
    await run.enter(call);
    if (call.answer) return;
    const tells = this.#facts.onAnswer !== undefined;
    await run.questions.ask(call, {
      ...{ fields: parts.fields, onAnswer: parts.onAnswer, tells },
      isUntil: parts.options.deadline instanceof Date,
      open: () => this.#putQuestion(call, parts),
    });
  }

  /** Stores a question; where it is stored, what it says now. */
  async #putQuestion(call: Call, parts: QuestionParts): Promise<Question> {
    const run = this.#run;
    const asked = run.parts.epoch > 1 ? (await this.#facts.readCase(this.id)).question : null;
    const known = asked?.id === String(call.position) ? asked : undefined;
    let question = toQuestion(call, parts, known ?? { asked_at: run.parts.clock().toISOString() });
    if (known && !call.isRenamed && isSame(known, question, run.parts.redact)) return known;
    if (known) question = { ...question, ...peopleOf(known, question, run.parts.redact) };
    // Another instance may have stored the answer since the record was read.
    const { readAnswers } = run.parts;
    if (!known && call.begun && readAnswers) await run.ledger.read(readAnswers);
    if (call.answer) return question;
    await assertOwn(run, question.files);
    await run.ledger.write(async (unit) => {
      if (call.answer) return;
      if (!known) question = toQuestion(call, parts, { asked_at: unit.now });
      if (known) await rewordCase(unit, this.id, question);
      else await askCase(unit, this.id, question, run.limits.spent);
      await this.#recordBegun(unit, call);
    });
    return question;
  }

  #recordBegun(unit: Unit, call: Call): Promise<number> {
    const tells = call.begun ? call.begun.tells : this.#facts.onAnswer !== undefined;
    return unit.record(this.#run.jobId, {
      ...{ type: "begun", call: "ask", ...call.fields, attempt: 1 },
      ...(tells && { tells }),
    });
  }

  /** From now on a question that is answered is known by its present name. */
  #recordName(call: Call): void {
    const { jobId } = this.#run;
    this.#run.ledger
      .write((unit) => this.#recordBegun(unit, call))
      .catch((error: unknown) => {
        if (!this.#run.isSealed) this.#run.log.warn("a question's name was not recorded", { jobId, error });
      });
  }

  /** `human_answer` runs before the handler continues, and does not run again once it has completed. */
  async #notifyAgent(call: Call, answer: AnswerEntry): Promise<void> {
    const run = this.#run;
    await run.enter(call);
    const step = { call, name: call.name, attempt: 1, cost: 0, startedAt: "", isRecorded: false };
    const waiting = run.activity.begin(step);
    if (waiting) await waiting;
    try {
      await run.life.orEnd(() => this.#facts.onAnswer?.(this.id, answer));
      await run.ledger.write(async (unit) => {
        await unit.record(run.jobId, { type: "call", call: "ask", ...call.fields });
        unit.afterwards((seq) => run.gate.settle(call, seq));
      });
    } finally {
      run.activity.done(step);
    }
  }

  async #end(
    to: "completed" | "failed",
    end: { delivery?: Record<string, unknown>; error?: string; cost?: number; name?: string },
  ): Promise<void> {
    const run = this.#run;
    const delivery = toJsonValue(end.delivery, `The delivery of case "${this.id}"`) as Case["final_delivery"];
    const cost = readCost(end.cost, `The end of case "${this.id}"`);
    const call = this.#scope.take("close", to);
    if (!call.isSettled) {
      await run.enter(call);
      await run.ledger.write(async (unit) => {
        await endCase(unit, this.id, { to, delivery, error: end.error, cost: end.cost, name: end.name });
        await unit.record(run.jobId, {
          ...{ type: "call", call: "close", ...call.fields },
          ...(cost > 0 && { cost }),
          ...(end.error !== undefined && { error: { name: "Error", message: end.error } }),
          ...run.limits.endsBy(unit, call, {
            ...{ name: end.name ?? "close", cost },
            ...(end.error !== undefined && { error: `case "${this.id}" failed: ${end.error}` }),
          }),
        });
        await addSpending(unit, { ...run.spender, cost });
        unit.afterwards((seq) => {
          run.limits.spend(cost);
          run.openCases.delete(this.id);
          run.gate.settle(call, seq);
        });
      });
      run.limits.stopAt(call.ends);
    }
    await run.delivered(call);
  }
}

interface QuestionParts {
  readonly fields: Fields;
  readonly options: Omit<AskOptions<FieldsInput>, "default">;
  readonly fallback: Record<string, unknown> | null;
  readonly onAnswer: () => MaybePromise<unknown>;
}

function toQuestion(
  call: Call,
  { fields, options, fallback }: QuestionParts,
  { asked_at, deadline: known, note = call.note }: Pick<Question, "asked_at"> & Partial<Question>,
): Question {
  const deadline = readDeadline(options.deadline, new Date(asked_at));
  return {
    id: String(call.position),
    ...(call.key !== undefined && { name: call.key }),
    question: options.question,
    ...(note !== undefined && { note }),
    fields: [...fields.list],
    asked_at,
    deadline: known && deadline && isKept(options.deadline, known, deadline) ? known : deadline,
    on_timeout: options.onTimeout ?? "fail",
    default: fallback,
    ...(options.files && options.files.length > 0 && { files: [...options.files] }),
    ...toPeople(options, asked_at),
  };
}

/** A time of day may be reckoned from the clock, and differ whenever the job is resumed; a duration does not. */
function isKept(deadline: AskOptions<FieldsInput>["deadline"], known: string, now: string): boolean {
  return deadline instanceof Date || Math.abs(Date.parse(known) - Date.parse(now)) < 1000;
}

/** Whether an open question says what it is to say. */
function isSame(known: Question, wanted: Question, redact: (text: string) => string): boolean {
  const text = ({ question, fields, deadline, on_timeout, default: fallback, ...others }: Question) =>
    redact(
      JSON.stringify([
        ...[question, fields, deadline, on_timeout, fallback],
        ...[others.remind_at, others.escalate, others.approvers, others.files],
      ]),
    );
  return text(known) === text(wanted);
}

function readDeadline(deadline: AskOptions<FieldsInput>["deadline"], now: Date): string | null {
  if (deadline === undefined) return null;
  if (deadline instanceof Date) return deadline.toISOString();
  return new Date(now.getTime() + toMilliseconds(deadline)).toISOString();
}

/** An invalid default is reported immediately, not at the deadline. */
function readDefault<F extends FieldsInput>(
  fields: Fields,
  options: AskOptions<F>,
): MaybePromise<Record<string, unknown> | null> {
  const given = options.default as Record<string, unknown> | undefined;
  if (options.onTimeout !== "default") return given ?? null;
  return andThen(fields.check(given ?? {}), (checked) => {
    if (checked.ok) return checked.stored;
    throw new TypeError(
      `The default answer to "${options.question}" is invalid: ${describeProblems(checked.problems)}`,
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
