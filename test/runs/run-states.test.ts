// @long
// @losses
import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition, JobStartContext } from "agent-control-service";
import * as v from "valibot";
import { describe, expect, onTestFinished, test } from "vitest";
import { isServiceError } from "../../src/core/base/errors.ts";
import { type EntityStatus, EntityStatusSchema } from "../../src/core/models/entity-status.ts";
import { Call } from "../../src/core/runs/replay/call.ts";
import { CALL_MOVES, type CallState } from "../../src/core/runs/replay/call-state.ts";
import { Run } from "../../src/core/runs/replay/run.ts";
import type { RunEnd } from "../../src/core/runs/replay/run-errors.ts";
import { RunLedger } from "../../src/core/runs/replay/run-ledger.ts";
import { RunLife } from "../../src/core/runs/replay/run-life.ts";
import { RunRecord } from "../../src/core/runs/replay/run-record.ts";
import { RUN_MOVES, type RunState } from "../../src/core/runs/replay/run-state.ts";
import { agentOf, gate } from "./_agent.ts";
import { emptyStore, JOB, Life, oneStore } from "./_lives.ts";
import { randomOf } from "./_program.ts";

const STATUSES = EntityStatusSchema.options;
const IN_DATABASE = process.env.SVC_TEST_STORE === "postgres";
/** Sequences; in a database a tenth of them, which it takes as long for. */
const SEEDS = Math.ceil(Number(process.env.SVC_PROGRAMS ?? 500) / (IN_DATABASE ? 10 : 1));
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Date.now() / 86_400_000) * 1_000_000);
/** Operations on one job. */
const STEPS = 14;
const OPERATOR = { kind: "session", id: "s", name: "Ada" } as const;

type Table = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The entries of a table, as `state move`. */
const entriesOf = (table: object): string[] =>
  Object.entries(table as Table).flatMap(([state, moves]) =>
    Object.keys(moves).map((move) => `${state} ${move}`),
  );

/** What moves the runs, or the calls, until the test ends; a move that the table does not have is in `refused`. */
function watch<Move>(prototype: { readonly state: string; move(move: Move): void }) {
  const seen = new Set<string>();
  const refused: string[] = [];
  const { move } = prototype;
  prototype.move = function (this: typeof prototype, to) {
    const entry = `${this.state} ${to}`;
    try {
      move.call(this, to);
      seen.add(entry);
    } catch (error) {
      refused.push(entry);
      throw error;
    }
  };
  onTestFinished(() => {
    prototype.move = move;
  });
  return { seen, refused };
}

/** Takes short answers; `slow` as a schema that asks a database. */
const fieldsOf = (most: number, slow: boolean) => {
  const isShort = (text: string) => text.length <= most;
  if (!slow) return v.object({ text: v.pipe(v.string(), v.check(isShort)) });
  const check = async (text: string) => {
    await delay(1);
    return isShort(text);
  };
  return v.objectAsync({ text: v.pipeAsync(v.string(), v.checkAsync(check)) });
};

/** Code of an agent that does a bit of everything, as one of its versions does it. */
function versionOf(random: (below: number) => number): AgentDefinition {
  const [call, fails, naps, reads] = [
    ["check", "look"][random(2)]!,
    random(2) > 0,
    random(2) > 0,
    random(2) > 0,
  ];
  const fields = fieldsOf(random(3) === 0 ? 2 : 9, random(2) > 0);
  return agentOf(async ({ job }) => {
    await job.step("first", () => 1);
    if (reads) await job.read();
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step(call, () => delay(2));
    if (naps) await job.sleep("5ms");
    const { text } = await item.ask("text", { question: `Which ${call}?`, fields });
    if (!naps) await job.sleep("5ms");
    await Promise.all([job.step("beside", () => delay(3)), item.step("of the case", () => delay(1))]);
    return job.step("last", async () => {
      await delay(10);
      if (fails) throw new Error("this version fails");
      return text;
    });
  });
}

type World = {
  life: Life;
  readonly deploy: (isGraceful: boolean) => Promise<void>;
  readonly random: (below: number) => number;
};

/** What people and deployments do to a job, or refuse to do. What moves it on comes more often than what ends it. */
const OPERATIONS: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  answer: async ({ life }) => {
    const question = (await life.cases.find("a"))?.question;
    return question && life.runner.answer(JOB, "a", { answer: { text: "yes" }, message: null });
  },
  "answer soon": async ({ life }) => {
    await delay(20);
    return OPERATIONS.answer!({ life } as World);
  },
  stop: ({ life }) => life.runner.stop(JOB, OPERATOR),
  retry: ({ life }) => life.runner.retry(JOB, "last_step", OPERATOR),
  restart: ({ life }) => life.runner.retry(JOB, "start", OPERATOR),
  continue: ({ life }) => life.runner.continue(JOB, OPERATOR),
  override: ({ life, random }) =>
    life.runner.override(JOB, STATUSES[random(STATUSES.length)] as EntityStatus, OPERATOR),
  deploy: ({ deploy }) => deploy(false),
  "deploy gracefully": ({ deploy }) => deploy(true),
  wait: ({ random }) => delay(random(30)),
};

/** Entries that only races make, and that take many steps: the tests below show them. */
const BELOW = {
  run: ["starting close", "frozen end", "frozen finish", "frozen suspend", "ending suspend"],
  finishing: ["finishing end", "finishing suspend"],
  call: ["loose issue", "loose reopen", "due reopen", "due hold", "held reopen", "skipped issue"],
};

test(`${SEEDS} random sequences of operations never leave the tables of runs and calls, and use all of them`, async () => {
  const runs = watch(RunLife.prototype as never);
  const calls = watch(Call.prototype as never);
  const below = Object.values(BELOW).flat();
  // In a database, the few sequences need not use all.
  const missed = () =>
    IN_DATABASE
      ? []
      : [
          ...entriesOf(RUN_MOVES).filter((entry) => !runs.seen.has(entry) && !below.includes(entry)),
          ...entriesOf(CALL_MOVES).filter((entry) => !calls.seen.has(entry) && !below.includes(entry)),
        ];
  // The sequences are of use only where they use the tables: on a busy machine, more are needed.
  for (let seed = SEED; seed < SEED + SEEDS || (missed().length > 0 && seed < SEED + 4 * SEEDS); seed++) {
    const random = randomOf(seed);
    const place = await oneStore();
    const store = await place.open();
    const lifeOf = () => new Life(store, versionOf(random), random(2) === 0 ? { suspendAfter: 1 } : {});
    const world: World = {
      random,
      life: lifeOf(),
      deploy: async (isGraceful) => {
        if (isGraceful) await world.life.runner.close(0.1);
        world.life.die();
        await world.life.died;
        world.life = lifeOf();
        await world.life.resume();
      },
    };
    await world.life.start();
    const done: string[] = [];
    for (let at = 0; at < STEPS; at++) {
      const name = Object.keys(OPERATIONS)[random(Object.keys(OPERATIONS).length)]!;
      done.push(name);
      await OPERATIONS[name]!(world).catch((error: unknown) => {
        if (!isServiceError(error)) throw new Error(`seed ${seed}: ${done.join(", ")}`, { cause: error });
      });
    }
    world.life.die();
    await world.life.died;
    await place.close();
    expect([...runs.refused, ...calls.refused], `seed ${seed}: ${done.join(", ")}`).toEqual([]);
  }
  expect(missed()).toEqual([]);
}, 600_000);

const END: RunEnd = { to: "failed", reason: "timeout", message: "It took too long" };

/** Runs a job, and gives its run. */
async function runOf(
  handler: (context: JobStartContext) => unknown,
  options: ConstructorParameters<typeof Life>[2] = {},
) {
  const found: Run[] = [];
  const { execute } = Run.prototype;
  Run.prototype.execute = function (...given) {
    found.push(this);
    return execute.apply(this, given);
  };
  onTestFinished(() => {
    Run.prototype.execute = execute;
  });
  const life = new Life(await emptyStore(), agentOf(handler), options);
  await life.start();
  return { life, run: found[0]! };
}

describe("a run", () => {
  test("that is frozen can be asked to end", async () => {
    const { life, run } = await runOf(({ job }) => job.sleep("1h"));
    void run.freeze();
    run.end(END);
    expect(run.life.state).toBe("ending");
    expect(await life.ended()).toMatchObject({ status: "failed", stop_reason: "timeout" });
    await expect.poll(() => run.life.state).toBe("over");
  });

  test("that is frozen ends with its handler, where that makes no further call", async () => {
    const { seen } = watch(RunLife.prototype as never);
    const { opened, open } = gate();
    const { life, run } = await runOf(({ job }) => job.step("last", () => opened.then(() => "done")));
    await expect.poll(() => run.activity.steps.length).toBe(1);
    void run.freeze();
    open();
    expect(await life.ended()).toMatchObject({ status: "completed", result: "done" });
    expect(seen).toContain("frozen finish");
  });

  test("whose handler has ended ends as that did, whatever comes while its end is being stored", async () => {
    const { opened, open } = gate();
    const { life, run } = await runOf(() => opened.then(() => "done"));
    const thaw = life.freeze();
    open();
    await expect.poll(() => run.life.state).toBe("finishing");
    run.end(END);
    expect(run.life.state).toBe("finishing");
    thaw();
    expect(await life.ended()).toMatchObject({ status: "completed", result: "done" });
  });

  test.for<[string, RunState, (run: Run) => unknown, (context: JobStartContext) => unknown]>([
    ["freezes", "frozen", (run) => run.freeze(), ({ job }) => job.sleep("1h")],
    [
      "is asked to end",
      "ending",
      (run) => run.end(END),
      ({ job }) => job.sleep("1h").catch(() => delay(9000)),
    ],
    ["ends", "finishing", (run) => run.end(END), ({ job }) => job.sleep("1h")],
  ])("that %s while its suspension is being stored is suspended", async ([, state, act, handler]) => {
    const { recordChanges } = RunLedger.prototype;
    onTestFinished(() => {
      RunLedger.prototype.recordChanges = recordChanges;
    });
    const states: RunState[] = [];
    // The last that the unit asks for before it stores the suspension.
    RunLedger.prototype.recordChanges = async () => {
      void act(run);
      await delay(5);
      states.push(run.life.state);
    };
    const { life, run } = await runOf(handler, { suspendAfter: 1 });
    await expect.poll(() => run.life.state).toBe("suspended");
    expect(states).toEqual([state]);
    expect(await life.jobs.get(JOB)).toMatchObject({ suspended: expect.anything() });
  });

  test("gets the answers that are stored while its record is read, and leaves its slot where the service closes then", async () => {
    const { of } = RunRecord;
    onTestFinished(() => {
      RunRecord.of = of;
    });
    const store = await emptyStore();
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      return (await item.ask("text", { question: "Which?", fields: fieldsOf(9, false) })).text;
    });
    const first = new Life(store, agent);
    await first.start();
    await expect.poll(async () => (await first.cases.find("a"))?.question).toBeTruthy();
    first.die();
    await first.died;

    const resume = async () => {
      const read = gate();
      const isReading = gate();
      RunRecord.of = async (...given) => {
        const record = await of.apply(RunRecord, given);
        isReading.open();
        await read.opened;
        return record;
      };
      const life = new Life(store, agent);
      const resumed = life.resume();
      await isReading.opened;
      return { life, resumed, read };
    };
    const closing = await resume();
    await closing.life.runner.close(1);
    closing.read.open();
    await closing.resumed;
    await expect.poll(() => closing.life.runner.load()).toEqual({ running: 0, queued: 0 });
    closing.life.die();

    const { life, resumed, read } = await resume();
    await life.runner.answer(JOB, "a", { answer: { text: "yes" }, message: null });
    read.open();
    await resumed;
    expect(await life.ended()).toMatchObject({ status: "completed", result: "yes" });
  });
});

test.for([false, true])(
  "an answer that no longer fits is asked for again in each later run, also where a person has continued the job (slow schema: %s)",
  async (slow) => {
    const { seen, refused } = watch(Call.prototype as never);
    const version = (call: string, most: number, end: () => unknown) =>
      agentOf(async ({ job }) => {
        await job.step(call, () => 1);
        const item = await job.openCase({ id: "a", name: "a" });
        const fields = fieldsOf(most, slow);
        const { text } = await item.ask("text", { question: "Which?", fields });
        await job.step("end", end);
        return text;
      });
    const store = await emptyStore();
    let life = new Life(
      store,
      version("check", 9, () => new Promise(() => {})),
    );
    const asks = () => expect.poll(async () => (await life.cases.find("a"))?.status).toBe("awaiting");
    const answer = (text: string) => life.runner.answer(JOB, "a", { answer: { text }, message: null });
    const deploy = async (agent: AgentDefinition) => {
      life.die();
      await life.died;
      life = new Life(store, agent);
      await life.resume();
    };
    await life.start();
    await asks();
    await answer("yes");
    await expect.poll(() => life.runner.runningSteps(JOB).length).toBe(1);

    const next = version("look", 2, () => 1);
    await deploy(next);
    expect(await life.ended()).toMatchObject({ stop_reason: "code_changed" });
    await life.runner.continue(JOB, OPERATOR);
    await asks();
    await deploy(next);
    await asks();
    await answer("ok");
    expect(await life.ended()).toMatchObject({ status: "completed", result: "ok" });
    expect(refused).toEqual([]);
    const own = slow ? ["due hold", "held reopen"] : ["due reopen"];
    for (const entry of ["loose issue", "loose reopen", ...own]) expect(seen).toContain(entry);
  },
);

test("a wait that is recorded last may come after a new question: its end is given when the handler makes it", async () => {
  const { seen } = watch(Call.prototype as never);
  const store = await emptyStore();
  const nap = ({ job }: JobStartContext) => job.sleep("1ms");
  const first = new Life(
    store,
    agentOf(async (context) => {
      await context.job.openCase({ id: "a", name: "a" });
      await nap(context);
      return new Promise(() => {});
    }),
  );
  await first.start();
  const ends = async () => (await first.entries()).filter(({ type }) => type === "call").length;
  await expect.poll(ends).toBe(2);
  first.die();
  await first.died;

  const life = new Life(
    store,
    agentOf(async (context) => {
      const item = await context.job.openCase({ id: "a", name: "a" });
      const { text } = await item.ask("text", { question: "Which?", fields: fieldsOf(9, false) });
      await nap(context);
      return text;
    }),
  );
  await life.resume();
  await expect.poll(async () => (await life.cases.find("a"))?.status).toBe("awaiting");
  await life.runner.answer(JOB, "a", { answer: { text: "yes" }, message: null });
  expect(await life.ended()).toMatchObject({ status: "completed", result: "yes" });
  expect(seen).toContain("skipped issue");
});

describe("the table of a run", () => {
  const STAGES: readonly (readonly RunState[])[] = [
    ["starting"],
    ["live", "rehearsing"],
    ["frozen"],
    ["ending"],
    ["finishing"],
    ["suspended", "over"],
  ];
  const stageOf = (state: RunState) => STAGES.findIndex((stage) => stage.includes(state));

  test("leads on, and from each state to an end", () => {
    for (const [state, moves] of Object.entries(RUN_MOVES) as [RunState, Record<string, RunState>][]) {
      for (const [move, to] of Object.entries(moves)) {
        const isSame = to === state && (state === "finishing" || state === "over");
        expect(isSame || stageOf(to) > stageOf(state), `${state} ${move} ${to}`).toBe(true);
      }
      expect(moves.close).toBe(state === "suspended" ? undefined : "over");
    }
  });

  test("lets the handler end, and the run leave memory, wherever the handler runs", () => {
    for (const state of ["live", "frozen", "ending"] as const)
      expect(RUN_MOVES[state]).toMatchObject({ finish: "finishing", suspend: "suspended" });
  });
});

describe("the table of a call", () => {
  const isIssued = (state: CallState) => ["issued", "asking", "due", "held", "delivered"].includes(state);
  const isSettled = (state: CallState) => !["open", "issued", "asking"].includes(state);

  test("changes with each move what the move is about, and nothing else", () => {
    for (const [state, moves] of Object.entries(CALL_MOVES) as [CallState, Record<string, CallState>][]) {
      for (const [move, to] of Object.entries(moves)) {
        const about = `${state} ${move} ${to}`;
        expect([isIssued(state), isIssued(to)], about).toEqual(
          move === "issue" ? [false, true] : [isIssued(to), isIssued(state)],
        );
        const settles = { settle: [false, true], reopen: [true, false] }[move];
        expect([isSettled(state), isSettled(to)], about).toEqual(
          settles ?? [isSettled(to), isSettled(state)],
        );
      }
    }
    expect(CALL_MOVES.delivered).toEqual({});
  });
});
