// @long
// @losses
import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { describe, expect, test } from "vitest";
import { isServiceError } from "../../src/core/base/errors.ts";
import { type EntityStatus, EntityStatusSchema } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import {
  ACTIVE_JOBS,
  HOLD_REASONS,
  JOB_MOVES,
  type JobState,
  QUEUED_JOBS,
  stateOf,
} from "../../src/core/models/job-state.ts";
import { agentOf } from "./_agent.ts";
import { JOB, Life, oneStore } from "./_lives.ts";
import { randomOf } from "./_program.ts";

const STATES = Object.keys(JOB_MOVES) as JobState[];
const STATUSES = EntityStatusSchema.options;
const IN_DATABASE = process.env.SVC_TEST_STORE === "postgres";
/** Sequences; in a database a tenth of them, which it takes as long for. */
const SEEDS = Math.ceil(Number(process.env.SVC_PROGRAMS ?? 500) / (IN_DATABASE ? 10 : 1));
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Date.now() / 86_400_000) * 1_000_000);
/** Operations on one job. */
const STEPS = 14;
const OPERATOR = { kind: "session", id: "s", name: "Ada" } as const;

/** Code of an agent that does a bit of everything; `call` is a step that differs from version to version. */
function versionOf(call: string, fails: boolean): AgentDefinition {
  return agentOf(async ({ job }) => {
    await job.step("first", () => 1);
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step(call, () => delay(2));
    await job.sleep("20ms");
    const { go } = await item.ask({ question: "Continue?", fields: [{ name: "go", required: true }] });
    await item.step("second", () => {
      if (fails) throw new Error("this version fails");
      return go;
    });
    await item.close();
    return "done";
  });
}

type World = {
  life: Life;
  readonly deploy: () => Promise<void>;
  readonly random: (below: number) => number;
};

/** What people and deployments do to a job, or refuse to do. What moves it on comes more often than what ends it. */
const OPERATIONS: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  answer: async ({ life }) => {
    const question = (await life.cases.find("a"))?.question;
    return question && life.runner.answer(JOB, "a", { answer: { go: "yes" }, message: null });
  },
  stop: ({ life }) => life.runner.stop(JOB, OPERATOR),
  retry: ({ life }) => life.runner.retry(JOB, "last_step", OPERATOR),
  restart: ({ life }) => life.runner.retry(JOB, "start", OPERATOR),
  continue: ({ life }) => life.runner.continue(JOB, OPERATOR),
  override: ({ life, random }) =>
    life.runner.override(JOB, STATUSES[random(STATUSES.length)] as EntityStatus, OPERATOR),
  "delete and restore": async ({ life }) => {
    await life.runner.remove(JOB, OPERATOR);
    return life.runner.restore(JOB, OPERATOR);
  },
  deploy: ({ deploy }) => deploy(),
  wait: ({ random }) => delay(random(30)),
};

test(`${SEEDS} random sequences of operations never leave the table of states`, async () => {
  const seen = new Set<JobState>();
  // In a database, the few sequences need not visit all.
  const isMissed = (state: JobState) => !IN_DATABASE && state !== "pulled" && !seen.has(state);
  // The sequences are of use only where they visit the states: on a busy machine, more are needed.
  for (let seed = SEED; seed < SEED + SEEDS || (STATES.some(isMissed) && seed < SEED + 4 * SEEDS); seed++) {
    const random = randomOf(seed);
    const place = await oneStore();
    const store = await place.open();
    const versions = ["check", "look"].flatMap((call) => [versionOf(call, false), versionOf(call, true)]);
    const lifeOf = (agent: AgentDefinition): Life => {
      const life = new Life(store, agent, { ...(random(2) === 0 && { suspendAfter: 1 }) });
      life.hooks.on("job:changed", ({ job, previous }) => void seen.add(stateOf(previous)).add(stateOf(job)));
      return life;
    };
    const world: World = {
      random,
      life: lifeOf(versions[0]!),
      deploy: async () => {
        world.life.die();
        await world.life.died;
        world.life = lifeOf(versions[random(versions.length)]!);
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
      assertFits(await world.life.jobs.get(JOB), `seed ${seed}: ${done.join(", ")}`);
    }
    const errors = world.life.logs.filter((line) => line.includes("does not make it"));
    expect(errors, `seed ${seed}: ${done.join(", ")}`).toEqual([]);
    world.life.die();
    await world.life.died;
    await place.close();
  }
  expect(STATES.filter(isMissed)).toEqual([]);
}, 600_000);

/** A job has what belongs to its state, and nothing of another one. */
function assertFits(job: StoredJob, about: string): void {
  const state = stateOf(job);
  expect(Boolean(job.parked), about).toBe(state === "parked");
  expect(Boolean(job.suspended), about).toBe(state === "suspended");
  expect(job.held !== null, about).toBe(state === "held" && job.stop_reason === "code_changed");
  expect(job.finished_at !== null, about).toBe(state === "ended");
}

describe("the table of states", () => {
  test("leads from each state to an end", () => {
    for (const state of STATES) if (state !== "ended") expect(JOB_MOVES[state].end).toEqual(["ended"]);
  });

  test("has each state, and one state for each job that can be stored", () => {
    const found = new Set<JobState>();
    for (const status of STATUSES)
      for (const stop_reason of [null, ...HOLD_REASONS, "pulled"] as const)
        for (const parked of [undefined, true])
          for (const suspended of [null, { at: "2026-01-31T09:30:00.000Z", wake_at: null }])
            found.add(stateOf({ status, stop_reason, parked, suspended }));
    expect([...found].sort()).toEqual([...STATES].sort());
  });

  test("agrees with the conditions by which lists find queued jobs and those to run", () => {
    expect(stateOf({ ...QUEUED_JOBS, stop_reason: null })).toBe("queued");
    const found = ACTIVE_JOBS.status.map((status) => stateOf({ ...ACTIVE_JOBS, status, suspended: null }));
    expect(found).toEqual(["queued", "running", "waiting"]);
  });
});
