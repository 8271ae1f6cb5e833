import { setTimeout as delay, setImmediate as soon } from "node:timers/promises";
import { defineAgent, type JobStartContext } from "agent-control-service";
import * as v from "valibot";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { LeaseTimes } from "../../src/core/runs/cluster/membership.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { agentOf } from "./_agent.ts";
import { JOB, Life } from "./_lives.ts";
import { makeProgram, type Node, randomOf, runProgram, type Witness } from "./_program.ts";

const AMBIGUOUS = /is made again, after waiting|made while a step was under way, and it was not known/;

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

/** A life, and what its handler saw. */
export interface Trial {
  readonly life: Life;
  /** One for each run of its handler. */
  readonly witnesses: Witness[];
}

export function live(
  program: Node,
  store: Store,
  options: {
    diesAt?: number;
    strictSteps: boolean;
    /** Whether the source of the handler says that it reads. */
    saysRead?: boolean;
    failed: Set<string>;
    suspendAfter?: number | undefined;
    clock?: () => Date;
    shared?: Partial<LeaseTimes>;
  },
): Trial {
  const { failed, suspendAfter } = options;
  // Where jobs are suspended while they wait, there must be time for it.
  const pace = suspendAfter === undefined ? 1 : 10;
  const witnesses: Witness[] = [];
  const run = (context: JobStartContext, _says?: { read: true }) => {
    const witness: Witness = {
      ...{ seen: [], did: [], wrong: [], failed, pace },
      isDead: () => life.isDead || witness !== witnesses.at(-1),
    };
    witnesses.push(witness);
    return runProgram(program, context, witness);
  };
  const agent = agentOf(
    options.saysRead ? (context) => run(context, { read: true }) : (context) => run(context),
  );
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

export interface Found {
  deaths: number;
  suspensions: number;
  refused: number;
  readonly problems: string[];
}

interface Options {
  readonly strictSteps: boolean;
  readonly saysRead: boolean;
  readonly suspendAfter: number | undefined;
}

/** What is left of a life that has died. */
export interface Remains {
  readonly one: Trial;
  readonly failed: Set<string>;
  readonly clock?: (() => Date) | undefined;
  readonly shared?: Partial<LeaseTimes>;
  /** The store, as the next life finds it after this one. */
  openAfter(last: Trial): Promise<Store>;
  /** Nothing of it is needed any longer. */
  close?(lives: readonly Trial[]): Promise<void>;
}

/** How a program dies. */
export interface Deaths {
  /** The end of a run that was recorded for this. */
  readonly end?: StoredJob;
  /** Length of the job's log. */
  readonly lines: number;
  /** Dies when the log is so long; nothing, where it ended before that. */
  dieAt(line: number, random: (most: number) => number): Promise<Remains | undefined>;
}

type Prepare = (program: Node, options: Options, undisturbed: Trial) => Promise<Deaths>;

/** Interrupts programs at every so many of their lines, and checks that they end as undisturbed. */
export async function tryPrograms(
  seeds: { readonly first: number; readonly count: number; readonly every: number; readonly atOnce: number },
  prepare: Prepare,
): Promise<Found> {
  const found: Found = { deaths: 0, suspensions: 0, refused: 0, problems: [] };
  const { first, count, every, atOnce } = seeds;
  let next = first;
  const work = async () => {
    while (next < first + count && found.problems.length < 20)
      await tryProgram(next++, { found, every, prepare });
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  await delay(0);
  return found;
}

async function tryProgram(
  seed: number,
  { found, every, prepare }: { found: Found; every: number; prepare: Prepare },
): Promise<void> {
  const random = randomOf(seed);
  const program = makeProgram(random);
  const strictSteps = random(2) === 0;
  const saysRead = random(2) === 0;
  const tell = (what: string) => {
    found.problems.push(`seed ${seed}: ${what}`);
    // A long run that is cut short has shown what it found.
    console.error(found.problems.at(-1));
  };

  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const quiet = await createMemoryStore({ tables: CORE_TABLES, dataDir: "", log });
  const first = live(program, quiet, { strictSteps, saysRead, failed: new Set() });
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

  const deaths = await prepare(program, { strictSteps, saysRead, suspendAfter }, first);
  const { end, lines } = deaths;
  if (end && isRefused(end)) return;
  if (end && end.status !== "completed") tell(`recorded it ${end.status}: ${end.error}`);

  const tryDeath = async (diesAt: number, random: (most: number) => number, remains: Remains) => {
    const { one, failed, clock, shared } = remains;
    const lives = [one];
    const next = async (more: { diesAt?: number }) => {
      const store = await remains.openAfter(lives.at(-1)!);
      // The very end was stored.
      if (isTerminal((await store.table("Job").get(JOB))!.status)) return undefined;
      if (lives.length === 1) found.deaths++;
      const options = {
        ...more,
        strictSteps,
        saysRead,
        failed,
        suspendAfter,
        ...(clock && { clock }),
        ...(shared && { shared }),
      };
      lives.push(live(program, store, options));
      return { job: await resume(lives.at(-1)!, waits), store };
    };
    try {
      // Some die once more.
      let resumed = await next(random(4) === 0 ? { diesAt: diesAt + 2 + random(4) } : {});
      if (resumed && !resumed.job) resumed = await next({});
      if (!resumed) return;
      const { job, store } = resumed;
      const where = `died at line ${diesAt} of ${lines}`;
      if (!job) return tell(`${where}: it did not end`);
      if (isRefused(job)) return;
      if (job.status !== "completed") {
        tell(`${where}: ${job.status}, ${job.error}`);
        console.error((await story(lives)).join("\n"));
      }
      if (isCertain && JSON.stringify(job.result) !== JSON.stringify(undisturbed.result))
        tell(
          `${where}: gave ${JSON.stringify(job.result)}, undisturbed ${JSON.stringify(undisturbed.result)}`,
        );
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
    } finally {
      await remains.close?.(lives);
    }
  };

  for (let diesAt = 2 + (seed % every); diesAt <= lines; diesAt += every) {
    // The same at this line, whichever others are tried.
    const random = randomOf(seed * 1000 + diesAt);
    const remains = await deaths.dieAt(diesAt, random);
    if (remains) await tryDeath(diesAt, random, remains);
  }
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
