import { inspect, isDeepStrictEqual } from "node:util";
import type { AgentDefinition } from "../core/agents/define-agent.ts";
import { toSlug } from "../core/agents/identity.ts";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import type { StoredCase } from "../core/models/case.ts";
import type { StoredJob } from "../core/models/job.ts";
import { type Answers, casesOf, driveJob, type EventData } from "./drive-job.ts";
import { EffectWatch } from "./effects.ts";
import { emptyStore, JOB, Life } from "./life.ts";
import type { Crash } from "./mortal-store.ts";
import { StepOutcomes, watchAgent } from "./watched-agent.ts";

export interface CrashTestOptions {
  /** Fields of the job. @default none */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** @default the agent asks nothing */
  readonly answers?: Answers;
  /** Data of the events that it waits for, by name: each wait gets one. @default none */
  readonly events?: EventData;
  /** Other agents that it needs. */
  readonly agents?: readonly AgentDefinition[];
}

const NAMES: NamesOf<CrashTestOptions> = { fields: true, answers: true, events: true, agents: true };

export interface CrashTestReport {
  /** Lines of the job's log: recorded calls, and what was recorded about them before they ended. */
  readonly lines: number;
  /** How often the job was interrupted, just before and just after each line, and resumed. */
  readonly interruptions: number;
}

/** An agent ends differently after a crash than without one. */
export class CrashTestError extends Error {
  override readonly name = "CrashTestError";
  /** What is wrong, one sentence each. */
  readonly faults: readonly string[];

  constructor(agent: string, faults: readonly string[]) {
    super(`Agent "${agent}" does not survive a crash:\n${faults.map((fault) => `- ${fault}`).join("\n")}`);
    this.faults = faults;
  }
}

/** How a job ended, without data that may differ between runs. */
interface End {
  readonly status: string;
  readonly reason: string | null;
  readonly error: string | null;
  readonly result: unknown;
  readonly cases: readonly Pick<StoredCase, "ref" | "name" | "status" | "final_delivery">[];
}

/** Maximum number of reported faults. */
const ENOUGH = 5;
/**
 * Each run starts at an earlier time than the previous one, so that results that depend on the time differ.
 */
const EARLIER = 97 * 60_000;
/** A start of the service takes a while. */
const RESTART = 1000;

/**
 * Runs a job of an agent undisturbed, twice, and then again for each line of its log, interrupted just before
 * or just after the line is stored, and resumed as after a restart of the service. Time is skipped while a
 * job waits, and steps return in each run what they returned in the first. Rejects with `CrashTestError`,
 * which names what is wrong: another result than without a crash, calls that cannot be replayed, effects
 * outside of steps, a step that the handler does not wait for.
 *
 * Module variables of the process survive these crashes, unlike real ones.
 *
 * @example
 * await crashTest(auditor, { fields: { url }, answers: () => ({ approved: true }) });
 */
export async function crashTest(
  agent: AgentDefinition,
  options: CrashTestOptions = {},
): Promise<CrashTestReport> {
  refuseUnknown(options, NAMES, "crashTest");
  const turn = last.then(() => new CrashTest(agent, options).run());
  last = turn.catch(() => {});
  return turn;
}

/** One at a time: each watches the whole process. */
let last: Promise<unknown> = Promise.resolve();

class CrashTest {
  readonly #agent: AgentDefinition;
  readonly #options: CrashTestOptions;
  readonly #outcomes = new StepOutcomes();
  readonly #watch = new EffectWatch();
  readonly #faults = new Set<string>();
  #runs = 0;

  constructor(agent: AgentDefinition, options: CrashTestOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  async run(): Promise<CrashTestReport> {
    try {
      const first = (await this.#live())!;
      const { lines } = first;
      this.#judgeUndisturbed(first.end, first.logs);
      this.#outcomes.keep();
      const again = (await this.#live())!;
      this.#compare(first.end, again.end, "without a crash, run a second time in the same process");
      let interruptions = 0;
      if (this.#faults.size === 0) {
        for (let line = 2; line <= lines && this.#faults.size < ENOUGH; line++) {
          for (const isBefore of [true, false]) {
            // After the last line there is nothing left to do.
            if (line === lines && !isBefore) continue;
            const one = await this.#live({ jobId: JOB, line, isBefore });
            if (!one?.wasCrashed) continue;
            interruptions++;
            const when = `after a crash just ${isBefore ? "before" : "after"} ${one.at} was stored`;
            this.#compare(first.end, one.end, when);
          }
        }
      }
      if (this.#faults.size > 0) throw new CrashTestError(this.#agent.name, [...this.#faults]);
      return { lines, interruptions };
    } finally {
      this.#watch.stop();
    }
  }

  /** One job from its start to its end, with a crash in between if one is given. */
  async #live(crash?: Crash) {
    this.#outcomes.begin();
    const store = await emptyStore();
    const ahead = -EARLIER * this.#runs++;
    const first = this.#begin({ store, ahead, crash });
    const request = {
      job_context: { ...CONTEXT, started_at: first.clock.now().toISOString() },
      job_fields: this.#options.fields ?? {},
    };
    await Promise.race([first.runner.start(toSlug(this.#agent.name), request), first.store.died]);
    await driveJob(first, JOB, this.#options);
    let last = first;
    if (first.store.isDead) {
      const passed = first.clock.ahead + RESTART;
      first.end();
      last = this.#begin({ store, ahead: passed });
      // Without a job the start was not acknowledged: the caller repeats the request.
      if (!(await store.table("Job").get(JOB))) return undefined;
      await last.runner.reconcile();
      await driveJob(last, JOB, this.#options);
    }
    const entries = await last.entries();
    const line = crash && entries[crash.line - 1];
    const at =
      line && "name" in line ? `line ${crash.line} (${line.type} "${line.name}")` : `line ${crash?.line}`;
    const end = toEnd((await store.table("Job").get(JOB))!, await casesOf(store, JOB));
    last.end();
    return { end, at, lines: entries.length, wasCrashed: last !== first, logs: last.logs };
  }

  #begin({
    store,
    ahead,
    crash,
  }: Pick<ConstructorParameters<typeof Life>[0], "store" | "ahead" | "crash">): Life {
    const now = () => life.clock.now();
    const agents = [this.#agent, ...(this.#options.agents ?? [])].map((one) =>
      watchAgent(one, this.#outcomes, now),
    );
    const life: Life = new Life({
      ...{ agents, store, ahead, isWorking: () => this.#outcomes.isWorking },
      ...(crash && { crash }),
    });
    return life;
  }

  #judgeUndisturbed(end: End, logs: readonly string[]): void {
    if (end.reason === "nondeterministic")
      this.#faults.add(`the job is rejected without a crash: ${end.error}`);
    for (const effect of this.#watch.effects)
      this.#faults.add(
        `the handler does something outside of a step, and does it again after each crash: ${effect}`,
      );
    const left = logs.find((line) => line.includes(LEFT_BEHIND));
    if (left) this.#faults.add(`a step is started that the handler does not wait for: ${left}`);
  }

  #compare(expected: End, found: End, when: string): void {
    if (isDeepStrictEqual(expected, found)) {
      const { added, missing } = this.#outcomes.differences();
      if (added.length > 0)
        this.#accuse(when, `makes steps that it does not make otherwise: ${added.join(", ")}`);
      if (missing.length > 0) this.#accuse(when, `skips the steps ${missing.join(", ")}`);
      return;
    }
    const keys = (Object.keys(expected) as (keyof End)[]).filter(
      (key) => !isDeepStrictEqual(expected[key], found[key]),
    );
    const changes = keys.map((key) => `${key} is ${show(found[key])} instead of ${show(expected[key])}`);
    this.#accuse(when, changes.join("; "));
  }

  #accuse(when: string, what: string): void {
    const { sources } = this.#watch;
    const hint = sources.size > 0 ? `. Outside of its steps the handler uses ${[...sources].join(", ")}` : "";
    this.#faults.add(`${when}: ${what}${hint}`);
  }
}

const CONTEXT = {
  workspace_id: "workspace-1",
  job_id: JOB,
  started_by: "crashTest",
  mission_id: "mission-1",
  mission_name: "Crash test",
  mission_context: null,
  job_instructions: null,
};

/** The message that the run logs. */
const LEFT_BEHIND = "the handler ended before steps that it had started";

function toEnd(job: StoredJob, cases: readonly StoredCase[]): End {
  return {
    status: job.status,
    reason: job.stop_reason,
    error: job.error,
    result: job.result,
    cases: cases.map(({ ref, name, status, final_delivery }) => ({ ref, name, status, final_delivery })),
  };
}

function show(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 300 });
}
