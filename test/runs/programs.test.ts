import { setTimeout as delay, setImmediate as soon } from "node:timers/promises";
import { defineAgent } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf } from "./_agent.ts";
import { emptyStore, JOB, Life, RecordedStore } from "./_lives.ts";
import { makeProgram, type Node, randomOf, runProgram, type Witness } from "./_program.ts";

const PROGRAMS = Number(process.env.SVC_PROGRAMS ?? 500);
/** Others each day; a seed that is given repeats its programs. */
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Date.now() / 86_400_000) * 1_000_000);
const AT_ONCE = 8;
/** The check of a commit interrupts each program at every second line, from one of the first two; else at each line. */
const EVERY = process.env.SVC_SHARE ? 2 : 1;
const AMBIGUOUS = /is made again, after waiting/;

const CHILD = defineAgent({
  name: "Child",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ path: v.string(), ticks: v.number() }),
      run: async ({ job, fields: { path, ticks } }) => {
        for (let n = 0; n < ticks; n++) await job.step("tick", () => soon());
        return `child ${path}`;
      },
    },
  },
});

interface Trial {
  readonly life: Life;
  /** One for each run of its handler. */
  readonly witnesses: Witness[];
}

function live(
  program: Node,
  store: Store,
  options: {
    diesAt?: number;
    strictSteps: boolean;
    failed: Set<string>;
    suspendAfter?: number | undefined;
    clock?: () => Date;
  },
): Trial {
  const { failed, suspendAfter } = options;
  // Where jobs are suspended while they wait, there must be time for it.
  const pace = suspendAfter === undefined ? 1 : 10;
  const witnesses: Witness[] = [];
  const agent = agentOf((context) => {
    const witness: Witness = {
      ...{ seen: [], did: [], wrong: [], failed, pace },
      isDead: () => life.isDead || witness !== witnesses.at(-1),
    };
    witnesses.push(witness);
    return runProgram(program, context, witness);
  });
  const life: Life = new Life(store, [agent, CHILD], options);
  life.hooks.on("run:entry", ({ job_id, entry }) => {
    if (job_id === JOB && entry.type === "begun" && entry.call === "event") void send(life, entry.key!, pace);
  });
  life.hooks.on("case:changed", ({ case: item }) => {
    if (item.status === "awaiting" && item.question) void answer(life, item.id, item.question.question, pace);
  });
  return { life, witnesses };
}

async function answer(life: Life, caseId: string, question: string, pace = 1): Promise<void> {
  if (pace > 1) await delay(pace);
  const request = { answer: { text: `answer to ${question}` }, message: null };
  await life.runner.answer(JOB, caseId, request).catch(() => {});
}

/** Each event is sent as often as it is asked for: by its id it is one. */
async function send(life: Life, of: string, pace = 1): Promise<void> {
  if (pace > 1) await delay(pace);
  await life.runner.receive("news", { id: of.replace(" ", "-"), data: { of } }).catch(() => {});
}

async function resume({ life }: Trial, waits: boolean): Promise<StoredJob | undefined> {
  await Promise.race([life.resume(), life.died]);
  const ended = life.ended();
  let job: StoredJob | undefined | "open" = "open";
  for (let pause = 5; job === "open"; pause = Math.min(2 * pause, 100)) {
    // Questions, and waits for events, of a life before.
    const { items } = await life.cases.list({ where: { job_id: JOB, status: "awaiting" } });
    for (const { id, question } of items) if (question) void answer(life, id, question.question);
    for (const entry of waits ? await life.entries() : [])
      if (entry.type === "begun" && entry.call === "event") void send(life, entry.key!);
    job = await Promise.race([ended, delay(pause, "open" as const)]);
  }
  return job;
}

const isRefused = ({ error }: StoredJob) => AMBIGUOUS.test(error ?? "");

interface Found {
  deaths: number;
  suspensions: number;
  refused: number;
  readonly problems: string[];
}

async function tryProgram(seed: number, found: Found): Promise<void> {
  const random = randomOf(seed);
  const program = makeProgram(random);
  const strictSteps = random(2) === 0;
  const tell = (what: string) => {
    found.problems.push(`seed ${seed}: ${what}`);
    // A long run that is cut short has shown what it found.
    console.error(found.problems.at(-1));
  };

  const first = live(program, await emptyStore(), { strictSteps, failed: new Set() });
  await first.life.start();
  const undisturbed = (await first.life.ended())!;
  if (isRefused(undisturbed)) {
    found.refused++;
    return;
  }
  if (undisturbed.status !== "completed") tell(`undisturbed it ${undisturbed.status}: ${undisturbed.error}`);
  for (const wrong of first.witnesses[0]!.wrong) tell(`undisturbed, ${wrong}`);
  const suspendAfter = random(2) === 0 ? 0 : undefined;
  const waits = JSON.stringify(program).includes('"event"');
  const isCertain = !JSON.stringify(program).match(/"(race|any|pump|left)"/);

  // Once more, from which each death is taken: what the store and the handler had at one of the writes of each line.
  const doomed = await record(program, { strictSteps, suspendAfter });
  if (isRefused(doomed.end)) return;
  if (doomed.end.status !== "completed") tell(`recorded it ${doomed.end.status}: ${doomed.end.error}`);
  const lines = doomed.moments.at(-1)!.line;
  for (let diesAt = 2 + (seed % EVERY); diesAt <= lines; diesAt += EVERY) {
    // The same at this line, whichever others are tried.
    const random = randomOf(seed * 1000 + diesAt);
    const moments = doomed.moments.filter(({ line }) => line === diesAt);
    // A write may add several lines.
    const moment = moments[random(moments.length)] ?? doomed.moments.find(({ line }) => line > diesAt)!;
    const { store, one, failed, clock } = moment.die();
    // The very end was stored.
    if (isTerminal((await store.table("Job").get(JOB))!.status)) continue;
    found.deaths++;
    const lives = [one];
    let job: StoredJob | undefined;
    // Some die once more.
    if (random(4) === 0) {
      const again = live(program, store, {
        diesAt: diesAt + 2 + random(4),
        ...{ strictSteps, failed, suspendAfter, clock },
      });
      lives.push(again);
      job = await resume(again, waits);
    }
    if (!job) {
      if (isTerminal((await store.table("Job").get(JOB))!.status)) continue;
      const last = live(program, store, { strictSteps, failed, suspendAfter, clock });
      lives.push(last);
      job = (await resume(last, waits))!;
    }
    const where = `died at line ${diesAt} of ${lines}`;
    if (isRefused(job)) continue;
    if (job.status !== "completed") {
      tell(`${where}: ${job.status}, ${job.error}`);
      console.error((await story(lives)).join("\n"));
    }
    if (isCertain && JSON.stringify(job.result) !== JSON.stringify(undisturbed.result))
      tell(`${where}: gave ${JSON.stringify(job.result)}, undisturbed ${JSON.stringify(undisturbed.result)}`);
    const started = (await lives.at(-1)!.life.entries()).filter(
      (entry) => entry.type === "call" && entry.call === "start",
    );
    const children = await store.table("Job").ids({ where: { parent_id: JOB } });
    if (children.length !== started.length)
      tell(`${where}: ${started.length} children are recorded, and ${children.length} exist`);
    const runs = lives.flatMap(({ witnesses }) => witnesses);
    for (const { witnesses } of lives) found.suspensions += Math.max(witnesses.length - 1, 0);
    const last = runs.at(-1)!;
    for (const [n, witness] of runs.entries()) {
      for (const wrong of witness.wrong) tell(`${where}: run ${n + 1}, ${wrong}`);
      const other = witness.seen.findIndex((seen, at) => last.seen[at] !== seen);
      if (other >= 0)
        tell(`${where}: run ${n + 1} was given ${witness.seen[other]}, the last one ${last.seen[other]}`);
      const done = new Set(witness.seen.map((seen) => seen.split(" ")[0]));
      const after = runs.slice(n + 1).flatMap((later) => later.did);
      for (const path of after) if (done.has(path)) tell(`${where}: ${path} was done again`);
    }
  }
}

/** A moment in a life, at which it could have died. */
interface Moment {
  /** Length of the job's log. */
  readonly line: number;
  /** What is left of a life that died then: a store, and what its handler had seen. */
  die(): { store: Store; one: Trial; failed: Set<string>; clock: () => Date };
}

/** Runs a program to its end. */
async function record(
  program: Node,
  options: { strictSteps: boolean; suspendAfter: number | undefined },
): Promise<{ end: StoredJob; moments: Moment[] }> {
  const moments: Moment[] = [];
  const failed = new Set<string>();
  const recorded = new RecordedStore((writes, line) => {
    const had = failed.size;
    const at = Date.now();
    const runs = trial.witnesses.map(({ seen, did }) => ({ seen: seen.length, did: did.length }));
    const die: Moment["die"] = () => {
      const since = Date.now() - at;
      const witnesses = runs.map(({ seen, did }, n) => {
        const witness = trial.witnesses[n]!;
        return { ...witness, seen: witness.seen.slice(0, seen), did: witness.did.slice(0, did) };
      });
      return {
        store: recorded.after(writes),
        one: { life: trial.life, witnesses },
        failed: new Set([...failed].slice(0, had)),
        // What it slept for is not over.
        clock: () => new Date(Date.now() - since),
      };
    };
    moments.push({ line, die });
  });
  const trial = live(program, recorded.store, { ...options, failed });
  await trial.life.start();
  const end = (await trial.life.ended())!;
  return { end, moments };
}

/** What a job went through that did not complete. */
async function story(lives: readonly Trial[]): Promise<string[]> {
  const { life } = lives.at(-1)!;
  const jobs = (await life.jobs.list({})).items;
  const log = await life.jobs.log(JOB);
  return [
    ...lives.flatMap((one, n) => [
      `life ${n + 1}, runs of ${one.witnesses.map(({ seen }) => seen.length)}`,
      ...one.life.logs,
    ]),
    ...jobs.map(({ id, status, suspended }) => `${id} ${status} ${JSON.stringify(suspended)}`),
    ...log.map(({ seq, entry }) => `${seq} ${JSON.stringify(entry)}`),
    new Date().toISOString(),
  ];
}

test(
  `${PROGRAMS} programs, interrupted at lines of their logs and suspended at their waits, end as undisturbed`,
  async () => {
    const found: Found = { deaths: 0, suspensions: 0, refused: 0, problems: [] };
    let next = SEED;
    const work = async () => {
      while (next < SEED + PROGRAMS && found.problems.length < 20) await tryProgram(next++, found);
    };

    await Promise.all(Array.from({ length: AT_ONCE }, work));
    await delay(0);

    expect(found.problems).toEqual([]);
    expect(found.deaths).toBeGreaterThan(5 * PROGRAMS);
    expect(found.suspensions).toBeGreaterThan(PROGRAMS / 2);
    // Most must be of use.
    expect(found.refused).toBeLessThan(PROGRAMS / 5);
    if (process.env.SVC_PROGRAMS) console.log(found);
  },
  120_000 + 3_000 * PROGRAMS,
);
