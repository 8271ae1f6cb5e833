import * as v from "valibot";
import { callModel } from "../../agents/call-model.ts";
import type { FileData, NewFileOptions, OpenFile } from "../../agents/file-content.ts";
import { assertKnown } from "../../agents/known-options.ts";
import type {
  CallOptions,
  CaseHandle,
  ChildHandle,
  JobHandle,
  ModelCall,
  ModelOptions,
  ReceivedEvent,
  StartableAgent,
  StartOptions,
  StepFunction,
  StepOptions,
  WaitOptions,
} from "../../agents/run-context.ts";
import { describeIssue, listProblems } from "../../base/describe-issue.ts";
import { type Duration, toMilliseconds } from "../../base/duration.ts";
import { tagJob } from "../../entities/change-job.ts";
import { openCase } from "../../entities/open-case.ts";
import type { FileValue } from "../../models/file.ts";
import type { Job } from "../../models/job.ts";
import { EntityIdSchema, NameSchema } from "../../models/scalars.ts";
import { MOST_TAGS, TAG_SEPARATOR, TagsSchema, withTags } from "../../models/tags.ts";
import { type Call, mayBeLeft } from "./call.ts";
import { CallScope } from "./call-scope.ts";
import { type JobFacts, RunCase } from "./case-handle.ts";
import { startChild } from "./child-handle.ts";
import { waitForEvent } from "./event-wait.ts";
import { artifactStep, fileStep, openOf } from "./made-files.ts";
import { readStored } from "./read.ts";
import type { Run } from "./run.ts";
import { type GivenStep, NO_OPTIONS, runStep } from "./step.ts";

const CaseInputSchema = v.object({
  id: EntityIdSchema,
  name: NameSchema,
  description: v.optional(v.string(), ""),
});

/** A job, with its calls recorded. */
export class RunJob implements JobHandle {
  readonly id: string;
  #context: Job["job_context"] | undefined;
  readonly #run: Run;
  readonly #facts: JobFacts;
  readonly #scope: CallScope;
  /** Handles by the id that the agent gave. */
  #cases: Map<string, Promise<CaseHandle>> | undefined;

  constructor(run: Run, facts: JobFacts) {
    this.id = run.jobId;
    this.#run = run;
    this.#facts = facts;
    this.#scope = new CallScope(run);
  }

  /** A copy, as all that a handler is given: what it does with it is the same in each run, and is not stored. */
  get context(): Job["job_context"] {
    this.#context ??= structuredClone(this.#facts.context);
    return this.#context;
  }

  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = NO_OPTIONS): Promise<T> {
    return this.stepOf({ name, fn, options });
  }

  /** The same for a handler in another process, which may have started the step. */
  stepOf<T>(step: GivenStep<T>): Promise<T> {
    return runStep({ scope: this.#scope, show: undefined, ...step });
  }

  model<Request, Answer>(
    name: string,
    request: Request,
    call: ModelCall<Request, Answer>,
    options?: ModelOptions<Answer>,
  ): Promise<Answer> {
    const open = this.open.bind(this);
    return callModel({ step: this.step.bind(this), open }, name, request, call, options);
  }

  openCase(input: { readonly id: string; readonly name: string; readonly description?: string }) {
    const known = this.#cases?.get(input.id);
    if (known) return known;
    const made = mayBeLeft(this.#openCase(input));
    this.#cases ??= new Map();
    this.#cases.set(input.id, made);
    return made;
  }

  sleep(duration: Duration, options: CallOptions = {}): Promise<void> {
    return mayBeLeft(this.#sleep(duration, options));
  }

  tag(...tags: readonly string[]): Promise<void> {
    return mayBeLeft(this.#tag(tags));
  }

  changed(name: string): boolean {
    assertChangeName(name);
    return this.#run.ledger.changes.of(this.#run.parts.redact(name));
  }

  start(
    agent: string | StartableAgent,
    fields: Readonly<Record<string, unknown>> = {},
    options: StartOptions = {},
  ): Promise<ChildHandle<never>> {
    return mayBeLeft(startChild(this.#scope, this.#facts.children(), { agent, fields, options }));
  }

  waitFor(name: string, options: WaitOptions = {}): Promise<ReceivedEvent<never>> {
    const { events, createdAt } = this.#facts;
    return mayBeLeft(waitForEvent(this.#scope, events, { given: { name, options }, createdAt }));
  }

  file(name: string, data: FileData, options?: NewFileOptions & CallOptions): Promise<FileValue> {
    return this.step(...fileStep(name, data, options));
  }

  artifact(
    name: string,
    file: FileValue,
    options: { readonly title?: string } & CallOptions = {},
  ): Promise<FileValue> {
    return this.stepOf(artifactStep(this.#run, name, file, options));
  }

  open(file: FileValue): OpenFile {
    return openOf(this.#run, file);
  }

  read(): Promise<Job> {
    return this.readIn(this.#run.activity.readsInStep);
  }

  /** Reads it in a step's function, or outside of any. */
  readIn(isInStep: boolean | undefined): Promise<Job> {
    return readStored(this.#scope, this.#facts.readJob, isInStep);
  }

  async #sleep(duration: Duration, options: CallOptions): Promise<void> {
    const run = this.#run;
    if (run.gate.isLive) assertKnown("sleep", options, "sleep");
    const milliseconds = toMilliseconds(duration);
    // How long it is may be reckoned from the time of day, and differ when the run is resumed.
    const call = this.#scope.take("sleep", "sleep", options.key);
    if (!call.isSettled) {
      await run.enter(call);
      const { until, at } = call.begun ?? (await this.#beginSleep(call, milliseconds));
      // Where the clock was set back, it is not longer than it was to be.
      const from = Math.max(run.parts.clock().getTime(), Date.parse(at), run.parts.wokenAt ?? 0);
      const end = Date.parse(until!);
      const over = () => new Promise<void>((resolve) => void run.clock.after(end - from, resolve));
      if (end > from) await run.activity.wait(over, { for: "time", end: { at: end, left: end - from } });
      await run.ledger.write(async (unit) => {
        await unit.record(run.jobId, { type: "call", call: "sleep", ...call.fields, started_at: at });
        unit.afterwards((seq) => run.gate.settle(call, seq));
      });
    }
    await run.delivered(call);
  }

  async #tag(given: readonly string[]): Promise<void> {
    const run = this.#run;
    const checked = v.safeParse(
      TagsSchema,
      given.map((tag) => (typeof tag === "string" ? run.parts.redact(tag) : tag)),
    );
    if (!checked.success) {
      const problems = checked.issues.map(
        (issue) => `${v.getDotPath(issue) ?? "tags"} ${describeIssue(issue)}`,
      );
      throw new TypeError(`job.tag was called with invalid tags: ${listProblems(problems)}`);
    }
    const tags = checked.output;
    const call = this.#scope.take("tag", tags.join(TAG_SEPARATOR));
    if (!call.takeEntry()) {
      await run.enter(call);
      await run.ledger.write(async (unit) => {
        const known = (await unit.tx.get("Job", run.jobId))?.tags ?? [];
        if (withTags(known, tags).length > MOST_TAGS)
          throw new TypeError(
            `job.tag: a job has at most ${MOST_TAGS} tags. Put what differs from job to job in its fields`,
          );
        await tagJob(unit, run.jobId, tags);
        const added = tags.filter((tag) => !known.includes(tag));
        const result = added.length < tags.length ? { result: added } : {};
        await unit.record(run.jobId, { type: "call", call: "tag", ...call.fields, ...result });
        unit.afterwards((seq) => run.gate.settle(call, seq));
      });
    }
    await run.delivered(call);
  }

  async #openCase(input: { id: string; name: string; description?: string }): Promise<CaseHandle> {
    const run = this.#run;
    if (run.gate.isLive) assertKnown("openCase", input, `openCase("${input?.id}")`);
    const checked = v.safeParse(CaseInputSchema, input);
    if (!checked.success) {
      const problems = checked.issues.map((issue) => `${v.getDotPath(issue)} ${describeIssue(issue)}`);
      throw new TypeError(`openCase was called with an invalid case: ${listProblems(problems)}`);
    }
    const { id: ref, name, description } = checked.output;
    const call = this.#scope.take("open_case", ref);
    const recorded = call.takeEntry();
    if (recorded) {
      await run.delivered(call);
      return this.#handle(recorded.result as string, ref);
    }
    await run.enter(call);
    run.limits.stopAt(run.limits.openCase(ref));
    const opened = await run.ledger.write(async (unit) => {
      const item = await openCase(
        unit,
        run.jobId,
        { ref, name, description },
        run.parts.account,
        run.limits.spent,
      );
      await unit.record(run.jobId, {
        ...{ type: "call", call: "open_case", ...call.fields, case_id: item.id, result: item.id },
      });
      unit.afterwards((seq) => {
        run.openCases.add(item.id);
        run.gate.settle(call, seq);
      });
      return item;
    });
    run.record.cases.set(ref, opened.id);
    await run.delivered(call);
    return this.#handle(opened.id, ref);
  }

  #handle(id: string, ref: string): CaseHandle {
    return new RunCase(this.#run, this.#facts, { id, ref });
  }

  /** The end is recorded at the beginning: a restart waits for what is left. */
  async #beginSleep(call: Call, milliseconds: number): Promise<{ until: string; at: string }> {
    const run = this.#run;
    const now = run.parts.clock();
    const until = new Date(now.getTime() + milliseconds).toISOString();
    await run.ledger.write((unit) =>
      unit.record(run.jobId, { type: "begun", call: "sleep", ...call.fields, attempt: 1, until }),
    );
    return { until, at: now.toISOString() };
  }
}

export function assertChangeName(name: unknown): void {
  if (typeof name !== "string" || name === "") throw new TypeError("changed was called without a name");
}
