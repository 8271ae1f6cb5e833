import * as v from "valibot";
import { describeIssue, listProblems } from "../../describe-issue.ts";
import { openCase } from "../../entities/cases.ts";
import type { Case } from "../../models/case.ts";
import type { Job } from "../../models/job.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import { EntityIdSchema, NameSchema } from "../../models/scalars.ts";
import { toMilliseconds } from "../duration.ts";
import type { CaseHandle, Duration, JobHandle, StepFunction, StepOptions } from "../run-context.ts";
import { CallScope } from "./call-scope.ts";
import { RunCase } from "./case-handle.ts";
import { mayBeLeft } from "./may-be-left.ts";
import type { Run } from "./run.ts";
import { runStep } from "./step.ts";

/** What a job's handle needs to know besides its run. */
export interface JobFacts {
  readonly context: Job["job_context"];
  readonly readJob: () => Promise<Job>;
  readonly readCase: (id: string) => Promise<Case>;
  /** Calls the agent's `human_answer`, where there is one. */
  readonly onAnswer: ((caseId: string, answer: AnswerEntry) => Promise<void>) | undefined;
}

const CaseInputSchema = v.object({
  id: EntityIdSchema,
  name: NameSchema,
  description: v.optional(v.string(), ""),
});

/** A job, with its calls recorded. */
export class RunJob implements JobHandle {
  readonly id: string;
  readonly context: Job["job_context"];
  readonly #run: Run;
  readonly #facts: JobFacts;
  readonly #scope: CallScope;
  /** Handles by the id that the agent gave. */
  readonly #cases = new Map<string, Promise<CaseHandle>>();

  constructor(run: Run, facts: JobFacts) {
    this.id = run.jobId;
    this.context = facts.context;
    this.#run = run;
    this.#facts = facts;
    this.#scope = new CallScope(run);
  }

  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = {}): Promise<T> {
    return mayBeLeft(runStep({ scope: this.#scope, name, fn, options }));
  }

  openCase(input: { readonly id: string; readonly name: string; readonly description?: string }) {
    const known = this.#cases.get(input.id);
    if (known) return known;
    const made = mayBeLeft(this.#openCase(input));
    this.#cases.set(input.id, made);
    return made;
  }

  sleep(duration: Duration): Promise<void> {
    return mayBeLeft(this.#sleep(duration));
  }

  read(): Promise<Job> {
    return this.#facts.readJob();
  }

  async #sleep(duration: Duration): Promise<void> {
    const run = this.#run;
    // How long it is may be reckoned from the time of day, and differ when the run is taken up.
    const { position, recorded } = this.#scope.take("sleep", "sleep");
    const { until, at } = recorded
      ? { until: String(recorded.result), at: recorded.at }
      : await this.#beginSleep(position, duration);
    // Where the clock was set back, it is not longer than it was to be.
    const from = Math.max(run.parts.clock().getTime(), Date.parse(at));
    const left = Date.parse(until) - from;
    if (left <= 0) return;
    await run.wait(() => new Promise<void>((resolve) => void run.after(left, resolve)));
  }

  async #openCase(input: { id: string; name: string; description?: string }): Promise<CaseHandle> {
    const run = this.#run;
    this.#scope.refuseInside("open_case", input.id);
    const known = run.parts.record.cases.get(input.id);
    if (known !== undefined) return this.#handle(known, input.id);
    const checked = v.safeParse(CaseInputSchema, input);
    if (!checked.success) {
      const problems = checked.issues.map((issue) => `${v.getDotPath(issue)} ${describeIssue(issue)}`);
      throw new TypeError(`openCase was given a case that is not valid: ${listProblems(problems)}`);
    }
    const { id: ref, name, description } = checked.output;
    await run.enter();
    run.stopAt(run.limits.openCase(ref));
    const position = run.parts.record.cases.size;
    const opened = await run.write(async (unit) => {
      const item = await openCase(
        unit,
        run.jobId,
        { ref, name, description },
        run.parts.account,
        run.limits.spent,
      );
      await unit.record(run.jobId, {
        ...{ type: "call", call: "open_case", case_id: item.id, position, name: ref, result: item.id },
      });
      // Before it is stored: the end of the run may be stored right behind it, and ends the cases that are open.
      run.openCases.add(item.id);
      return item;
    });
    run.parts.record.cases.set(ref, opened.id);
    return this.#handle(opened.id, ref);
  }

  #handle(id: string, ref: string): CaseHandle {
    return new RunCase(this.#run, this.#facts, { id, ref });
  }

  /** The end is recorded at the beginning: a restart waits for what is left. */
  async #beginSleep(position: number, duration: Duration): Promise<{ until: string; at: string }> {
    const run = this.#run;
    const milliseconds = toMilliseconds(duration);
    await run.enter();
    const now = run.parts.clock();
    const until = new Date(now.getTime() + milliseconds).toISOString();
    await run.write((unit) =>
      unit.record(run.jobId, {
        type: "call",
        call: "sleep",
        ...this.#scope.at,
        position,
        name: "sleep",
        result: until,
      }),
    );
    return { until, at: now.toISOString() };
  }
}
