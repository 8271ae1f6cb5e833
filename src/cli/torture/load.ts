import { setTimeout as delay } from "node:timers/promises";
import { isTerminal } from "../../core/models/entity-status.ts";
import { type ServiceClient, UnreachableError } from "../job/service-client.ts";
import { answerAll } from "./outcome.ts";
import type { Target } from "./target.ts";
import type { Findings, TrialJob } from "./trial.ts";

/** Longest time under load before a kill, milliseconds. */
const LONGEST_LOAD = 1500;
/** Jobs that are asked for at the same time. */
const LANES = 8;

export interface Load {
  readonly target: Target;
  readonly jobs: TrialJob[];
  readonly round: number;
  readonly random: () => number;
}

/** Starts jobs, answers questions and follows streams, for a random time. */
export async function underLoad(client: ServiceClient, { target, jobs, round, random }: Load): Promise<void> {
  const isOver = { value: false };
  const fresh = target.jobsOf(round, random);
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
    quietly(answerUntil(client, pending, { round, isOver })),
    quietly(Promise.resolve(target.disturb?.(client, { round, jobs: pending, isOver, random }))),
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
  const after = [...job.seen.keys()].at(-1);
  for await (const { event, id, data } of client.events(`/jobs/${job.id}/stream`, { after })) {
    if (id !== undefined) job.seen.set(id, JSON.stringify(JSON.parse(data)));
    if (event === "end") job.isOver = true;
  }
}

async function answerUntil(
  client: ServiceClient,
  jobs: readonly TrialJob[],
  { round, isOver }: { readonly round: number; readonly isOver: { readonly value: boolean } },
): Promise<void> {
  for (; !isOver.value; await delay(30)) {
    await inLanes(jobs, async (job) => {
      if (isOver.value || job.isOver || !job.isAcknowledged || round < job.answerFrom) return;
      const { status } = await client.get<{ status: string }>(`/jobs/${job.id}`);
      if (status === "awaiting") await answerAll(client, job);
    });
  }
}

/** After a start: every acknowledged job exists, and an interrupted start request can be repeated. */
export async function findLost(
  client: ServiceClient,
  jobs: readonly TrialJob[],
  findings: Findings,
): Promise<void> {
  const check = async (job: TrialJob): Promise<void> => {
    if (!job.isAcknowledged) await startJob(client, job);
    try {
      const { status } = await client.get<{ status: Parameters<typeof isTerminal>[0] }>(`/jobs/${job.id}`);
      if (isTerminal(status)) job.isOver = true;
    } catch (error) {
      if (error instanceof UnreachableError) throw error;
      findings.lost.push(`job ${job.id} (${job.scenario.slug}): ${(error as Error).message}`);
      job.isOver = true;
    }
  };
  const left = jobs.filter(({ isOver }) => !isOver);
  await inLanes(left, check);
}

/** Does something with each, a few at a time. */
export async function inLanes<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  const left = [...all];
  const lane = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await work(one);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** The kill cuts all connections: what was not acknowledged before it does not count. */
async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch(() => {});
}
