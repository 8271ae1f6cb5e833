import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentResponse } from "../../core/models/agent-response.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { readFields } from "../job/read-fields.ts";
import { type ServiceClient, UnreachableError } from "../job/service-client.ts";
import { answerAll, finish, readOutcome } from "./outcome.ts";
import { createRandom } from "./random.ts";
import { ServiceProcess } from "./service-process.ts";
import { checkJob, type Expected, expectedOf, type Findings, type Scenario, TrialJob } from "./trial.ts";
import type { Verdict } from "./verdict.ts";

export interface TortureOptions {
  readonly file: string;
  readonly rounds: number;
  readonly seed: number;
  /** Jobs of each agent started per round. */
  readonly jobs: number;
  readonly agents: readonly string[];
  readonly fields: readonly string[];
  readonly context: CliContext;
}

/** Longest time under load before a kill, and before a start is interrupted, milliseconds. */
const LONGEST_LOAD = 1500;
const LONGEST_CUT_START = 900;
/** Seconds that the jobs get to finish after the last kill. */
const LAST_WAIT = 120;

/** Kills a service repeatedly while it works, and checks everything that it had acknowledged. */
export async function torture(options: TortureOptions): Promise<Verdict> {
  const { file, rounds, seed, context } = options;
  const begun = Date.now();
  const dataDir = await mkdtemp(join(tmpdir(), "svc-torture-"));
  const service = new ServiceProcess({ file, dataDir, context });
  const random = createRandom(seed);
  const jobs: TrialJob[] = [];
  const findings: Findings = { lost: [], doubled: [], wrong: [], expired: [] };
  let kills = 0;
  try {
    let client = await service.start();
    const scenarios = await chooseScenarios(client, options);
    context.note(`seed ${seed}: ${scenarios.map(({ slug }) => slug).join(", ")}, first without kills`);
    const expected = new Map<string, Expected>();
    for (const scenario of scenarios) expected.set(scenario.slug, await runUndisturbed(client, scenario));

    for (let round = 1; round <= rounds; round++) {
      await underLoad(client, { jobs, scenarios, perAgent: options.jobs, round, random });
      await service.kill();
      kills++;
      // A start can be interrupted too, in the middle of resuming jobs.
      if (random() < 0.2) {
        await service.begin();
        await delay(random() * LONGEST_CUT_START);
        await service.kill();
        kills++;
      }
      client = await service.start();
      await findLost(client, jobs, findings);
      if (round % 10 === 0) context.note(`${round} of ${rounds} rounds, ${jobs.length} jobs`);
    }

    const counts = { calls: 0, resumed: 0, answers: 0 };
    for (const job of jobs.filter((one) => one.isAcknowledged)) {
      const over = await finish(client, job.id, LAST_WAIT).catch(() => false);
      if (!over) findings.wrong.push(`job ${job.id} (${job.scenario.slug}): does not end`);
      if (!over) continue;
      const outcome = await readOutcome(client, job.id);
      checkJob(job, outcome, expected.get(job.scenario.slug)!, findings);
      const entries = [...outcome.log.values()];
      counts.calls += entries.filter(({ type }) => type === "call").length;
      counts.resumed += entries.filter((one) => one.type === "mark" && one.mark === "interrupted").length;
      counts.answers += job.answers.size;
    }
    await service.kill();

    const problems = [
      ...findings.lost.map((one) => `lost: ${one}`),
      ...findings.doubled.map((one) => `duplicated: ${one}`),
      ...findings.wrong.map((one) => `wrong: ${one}`),
    ];
    if (problems.length === 0) await rm(dataDir, { recursive: true, force: true });
    return {
      ...{ seed, rounds, kills, problems, ...counts },
      seconds: (Date.now() - begun) / 1000,
      agents: scenarios.map(({ slug }) => slug),
      jobs: jobs.filter((one) => one.isAcknowledged).length,
      lost: findings.lost.length,
      doubled: findings.doubled.length,
      wrong: findings.wrong.length,
      expired: findings.expired.length,
      dataDir: problems.length === 0 ? undefined : dataDir,
      repeat: toCommand(options),
    };
  } catch (error) {
    await service.kill();
    // If a service does not come back after a kill, its data folder has the evidence.
    if (kills > 0) context.note(`after ${kills} kills; the data is in ${dataDir}`);
    else await rm(dataDir, { recursive: true, force: true });
    throw error;
  } finally {
    await service.kill();
  }
}

function toCommand({ file, rounds, jobs, seed, agents, fields, context }: TortureOptions): string {
  const chosen = [...agents.map((slug) => `--agent ${slug}`), ...fields.map((text) => `--field '${text}'`)];
  const counts = [`--rounds ${rounds}`, `--jobs ${jobs}`, `--seed ${seed}`];
  return ["svc torture", relative(context.cwd, file) || file, ...counts, ...chosen].join(" ");
}

/** The agents to test: those that are named, else all that can be started without inputs. */
async function chooseScenarios(client: ServiceClient, options: TortureOptions): Promise<Scenario[]> {
  const agents = await client.get<AgentResponse[]>("/agents");
  const unknown = options.agents.find((slug) => !agents.some((agent) => agent.slug === slug));
  if (unknown !== undefined) {
    throw new UsageError(
      `There is no agent "${unknown}"`,
      `Agents: ${agents.map(({ slug }) => slug).join(", ")}.`,
    );
  }
  const used = new Set<string>();
  const scenarios = agents
    .filter(({ slug }) => options.agents.length === 0 || options.agents.includes(slug))
    .map((agent): Scenario & { isReady: boolean } => {
      const declared = agent.methods?.job_start.fields ?? [];
      const own = options.fields.filter((text) => declared.some(({ name }) => text.split(/:?=/)[0] === name));
      for (const text of own) used.add(text);
      const fields = readFields(own, declared);
      const isReady = declared.every((one) => !one.required || one.default !== null || one.name in fields);
      return { slug: agent.slug, fields, isReady };
    });
  const unused = options.fields.find((text) => !used.has(text));
  if (unused !== undefined) throw new UsageError(`No tested agent has the field of --field ${unused}`);
  const missing = scenarios.find(({ isReady, slug }) => !isReady && options.agents.includes(slug));
  if (missing)
    throw new UsageError(`Agent "${missing.slug}" needs inputs`, "Set them with --field name=value.");
  const ready = scenarios.filter(({ isReady }) => isReady);
  if (ready.length > 0) return ready;
  throw new UsageError("No agent can be started without inputs", "Set them with --field name=value.");
}

/** Two jobs without kills show an agent's expected outcome, and what differs between runs anyway. */
async function runUndisturbed(client: ServiceClient, scenario: Scenario): Promise<Expected> {
  const run = async (id: string) => {
    const job = new TrialJob(id, scenario);
    await client.post(`/agents/${scenario.slug}/jobs`, job.body);
    if (await finish(client, id, LAST_WAIT)) return readOutcome(client, id);
    throw new UsageError(
      `A job of agent "${scenario.slug}" does not end within ${LAST_WAIT} s, even without kills`,
      "Choose other agents with --agent, or give it less work with --field.",
    );
  };
  return expectedOf(await run(`undisturbed-a-${scenario.slug}`), await run(`undisturbed-b-${scenario.slug}`));
}

interface Load {
  readonly jobs: TrialJob[];
  readonly scenarios: readonly Scenario[];
  readonly perAgent: number;
  readonly round: number;
  readonly random: () => number;
}

/** Starts jobs, answers questions and follows streams, for a random time. */
async function underLoad(
  client: ServiceClient,
  { jobs, scenarios, perAgent, round, random }: Load,
): Promise<void> {
  const isOver = { value: false };
  const fresh = scenarios.flatMap((scenario) =>
    Array.from({ length: perAgent }, (_, n) => new TrialJob(`r${round}-${scenario.slug}-${n + 1}`, scenario)),
  );
  jobs.push(...fresh);
  const pending = jobs.filter((job) => !job.isOver);
  const pauses = fresh.map(() => random() * 200);
  void Promise.all([
    ...fresh.map(async (job, at) => {
      await delay(pauses[at]);
      await quietly(startJob(client, job));
      if (job.isAcknowledged) await quietly(follow(client, job));
    }),
    ...pending.filter((job) => job.isAcknowledged).map((job) => quietly(follow(client, job))),
    quietly(answerUntil(client, pending, isOver)),
  ]);
  await delay(50 + random() * LONGEST_LOAD);
  isOver.value = true;
}

async function startJob(client: ServiceClient, job: TrialJob): Promise<void> {
  await client.post(`/agents/${job.scenario.slug}/jobs`, job.body);
  job.isAcknowledged = true;
}

/** Remembers each line of a job's log that the service has shown. */
async function follow(client: ServiceClient, job: TrialJob): Promise<void> {
  for await (const { event, id, data } of client.events(
    `/jobs/${job.id}/stream`,
    [...job.seen.keys()].at(-1),
  )) {
    if (id !== undefined) job.seen.set(id, JSON.stringify(JSON.parse(data)));
    if (event === "end") job.isOver = true;
  }
}

async function answerUntil(
  client: ServiceClient,
  jobs: readonly TrialJob[],
  isOver: { readonly value: boolean },
): Promise<void> {
  for (; !isOver.value; await delay(30)) {
    for (const job of jobs) {
      if (isOver.value || job.isOver || !job.isAcknowledged) continue;
      const { status } = await client.get<{ status: string }>(`/jobs/${job.id}`);
      if (status !== "awaiting") continue;
      await answerAll(client, job.id, (item, answer) => job.answered(item, answer));
    }
  }
}

/** After a start: every acknowledged job exists, and an interrupted start request can be repeated. */
async function findLost(client: ServiceClient, jobs: readonly TrialJob[], findings: Findings): Promise<void> {
  for (const job of jobs) {
    if (job.isOver) continue;
    if (!job.isAcknowledged) await startJob(client, job);
    try {
      const { status } = await client.get<{ status: Parameters<typeof isTerminal>[0] }>(`/jobs/${job.id}`);
      if (isTerminal(status)) job.isOver = true;
    } catch (error) {
      if (error instanceof UnreachableError) throw error;
      findings.lost.push(`job ${job.id} (${job.scenario.slug}): ${(error as Error).message}`);
      job.isOver = true;
    }
  }
}

/** The kill cuts all connections: what was not acknowledged before it does not count. */
async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch(() => {});
}
