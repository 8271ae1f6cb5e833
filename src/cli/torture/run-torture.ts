import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countOf } from "../../core/base/count-of.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { listenForStop } from "../stop-signal.ts";
import { findLost, inLanes, underLoad } from "./load.ts";
import { finish, LAST_WAIT, readOutcome } from "./outcome.ts";
import { createRandom } from "./random.ts";
import { ServiceProcess } from "./service-process.ts";
import { OneService, type Subject } from "./subject.ts";
import type { Target } from "./target.ts";
import { checkAcknowledged, checkRecord, type Findings, type TrialJob } from "./trial.ts";
import type { Verdict } from "./verdict.ts";

export interface TortureOptions {
  readonly rounds: number;
  readonly seed: number;
  readonly context: CliContext;
  /** The command that repeats the test, without rounds and seed. */
  readonly command: string;
  /** What the test works with; everything that it writes is in the folder. */
  readonly target: (folder: string) => Target;
  /** What is tortured. @default one service with its data folder */
  readonly subject?: (target: Target, folder: string) => Promise<Subject>;
}

/** Kills a service repeatedly while it works, and checks everything that it had acknowledged. */
export async function torture(options: TortureOptions): Promise<Verdict> {
  const { context } = options;
  const folder = await mkdtemp(join(tmpdir(), "svc-torture-"));
  const target = options.target(folder);
  const subject = options.subject
    ? await options.subject(target, folder)
    : new OneService(new ServiceProcess({ program: target, dataDir: join(folder, "data"), context }));
  const stop = listenForStop(() => {});
  const struck = { rounds: 0, kills: 0 };
  try {
    const interrupted = stop.received.then(() => {
      throw new CliError("The test was interrupted", { exitCode: 130 });
    });
    return await Promise.race([runRounds(subject, { target, folder, options, struck }), interrupted]);
  } catch (error) {
    await subject.kill();
    // If a service does not come back after a strike, its data folder has the evidence.
    if (struck.rounds > 0) context.note(`after ${countOf(struck.kills, "kill")}; the data is in ${folder}`);
    else await rm(folder, { recursive: true, force: true });
    throw error;
  } finally {
    await subject.kill();
    stop.release();
  }
}

interface Trial {
  readonly target: Target;
  readonly folder: string;
  readonly options: TortureOptions;
  /** What was done so far. */
  readonly struck: { rounds: number; kills: number };
}

async function runRounds(subject: Subject, { target, folder, options, struck }: Trial): Promise<Verdict> {
  const { rounds, seed, context } = options;
  const begun = Date.now();
  const random = createRandom(seed);
  const jobs: TrialJob[] = [];
  const findings: Findings = { lost: [], doubled: [], swapped: [], wrong: [], expired: [] };
  let client = await subject.start();
  await target.prepare(client);
  context.note(`seed ${seed}: ${target.agents.join(", ")}`);

  for (let round = 1; round <= rounds; round++) {
    await underLoad(client, { target, jobs, round, random });
    struck.rounds = round;
    const after = await subject.strike({ random, deploy: () => target.deploy?.() });
    client = after.client;
    struck.kills += after.kills;
    await findLost(client, jobs, findings);
    await target.inspect?.(client, findings);
    if (round % 10 !== 0) continue;
    const found = Object.entries(findings).map(([kind, { length }]) => `${length} ${kind}`);
    const seconds = Math.round((Date.now() - begun) / 1000);
    context.note(
      `${round} of ${rounds} rounds in ${seconds} s, ${countOf(jobs.length, "job")}: ${found.join(", ")}`,
    );
  }

  await subject.rest?.();
  if (target.settle) client = await target.settle(subject, client, jobs, findings);
  const counts = { calls: 0, resumed: 0, answers: 0 };
  const acknowledged = jobs.filter((one) => one.isAcknowledged);
  await inLanes(acknowledged, async (job) => {
    const over = await finish(client, job, LAST_WAIT).catch(() => false);
    if (!over) findings.wrong.push(`${job.label}: does not end`);
    if (!over) return;
    const outcome = await readOutcome(client, job.id);
    checkAcknowledged(job, outcome, findings);
    checkRecord(job.label, outcome, findings);
    target.check(job, outcome, findings);
    const entries = [...outcome.log.values()];
    counts.calls += entries.filter(({ type }) => type === "call").length;
    counts.resumed += entries.filter((one) => one.type === "mark" && one.mark === "interrupted").length;
    counts.answers += job.answers.size;
  });
  const beside = await target.checkRest?.(client, findings);
  await subject.kill();

  const problems = [
    ...findings.lost.map((one) => `lost: ${one}`),
    ...findings.doubled.map((one) => `duplicated: ${one}`),
    ...findings.swapped.map((one) => `swapped: ${one}`),
    ...findings.wrong.map((one) => `wrong: ${one}`),
  ];
  if (problems.length === 0) await rm(folder, { recursive: true, force: true });
  return {
    ...{ seed, rounds, kills: struck.kills, problems, ...counts, ...(beside && { beside }) },
    seconds: (Date.now() - begun) / 1000,
    agents: target.agents,
    jobs: acknowledged.length,
    lost: findings.lost.length,
    doubled: findings.doubled.length,
    swapped: findings.swapped.length,
    wrong: findings.wrong.length,
    expired: findings.expired.length,
    dataDir: problems.length === 0 ? undefined : folder,
    repeat: `${options.command} --rounds ${rounds} --seed ${seed}`,
  };
}
