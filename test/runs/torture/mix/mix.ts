import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readPages } from "../../../../src/cli/job/list-cases.ts";
import { type ServiceClient, UnreachableError } from "../../../../src/cli/job/service-client.ts";
import { inLanes } from "../../../../src/cli/torture/load.ts";
import { answerAll, LAST_WAIT, readOutcome } from "../../../../src/cli/torture/outcome.ts";
import type { Subject } from "../../../../src/cli/torture/subject.ts";
import type { Target, Under } from "../../../../src/cli/torture/target.ts";
import {
  checkRecord,
  type Findings,
  type Outcome,
  type TrialJob,
} from "../../../../src/cli/torture/trial.ts";
import type { ReceivedEvent } from "../../../../src/core/agents/run-context.ts";
import { type EntityStatus, isTerminal } from "../../../../src/core/models/entity-status.ts";
import type { Schedule } from "../../../../src/core/models/schedule.ts";
import type { OpenJob } from "../../../../src/core/runs/check/check-job.ts";
import { JOURNAL_FILE, LIFE_FILE } from "./agents.ts";
import { checkListener, checkReceived } from "./check-events.ts";
import { checkChildren, checkFamily, type Member } from "./check-family.ts";
import { checkPlanned, isBeginning, whyNotHeld } from "./check-plan.ts";
import { checkSchedules, type Watched } from "./check-schedules.ts";
import { checkOwners, Journal } from "./journal.ts";
import { Lives } from "./lives.ts";
import type { MixCounts } from "./mix-counts.ts";
import { MixJob, type MixKind } from "./mix-job.ts";
import { PERIOD, PLAN_KINDS, type Plan, type PlanKind, planOf, SCHEDULES } from "./plans.ts";
import { readTakeOvers } from "./take-overs.ts";

const REPOSITORY = fileURLToPath(new URL("../../../..", import.meta.url));
const KINDS: readonly MixKind[] = [...PLAN_KINDS, "pair", "family", "listener"];
/** Passes over all open jobs without any progress before they count as stuck. */
const PASSES = 3;

/** Agents of the test: they use children, events, schedules and questions, and their code changes. */
export class Mix implements Target {
  readonly file: string;
  readonly cwd: string;
  readonly agents = ["planned", "pair", "family", "listener", "ticker"];
  readonly #jobsPerKind: number;
  /** Which code processes have that start now. */
  #deploy = 0;
  #deploys = 0;
  readonly #lives = new Lives();
  readonly #first = new Map<string, string>();
  readonly #watched = new Map<string, Watched>();
  /** Jobs of the test that have ended, by id. */
  readonly #ended = new Map<string, Member>();
  readonly #started: MixJob[] = [];
  /** Jobs that were found to be held, with the time since when. */
  readonly #held = new Set<string>();
  #count = 0;

  constructor({ folder, jobs }: { readonly folder: string; readonly jobs: number }) {
    this.file = join(folder, "controller.ts");
    this.cwd = folder;
    this.#jobsPerKind = jobs;
  }

  async beforeStart(instance: string): Promise<void> {
    const { number } = this.#lives.begin(instance, this.#deploy);
    await writeFile(join(this.cwd, LIFE_FILE), String(number));
    // The fingerprint of the code is made of the files of the project.
    await writeFile(join(this.cwd, "package.json"), '{ "type": "module", "private": true }\n');
    await writeFile(this.file, this.controller());
  }

  ended(instance: string, how: "kill" | "hand-over"): void {
    this.#lives.end(instance, how);
  }

  /** The code of the present deploy. */
  controller(): string {
    const code = JSON.stringify({ deploy: this.#deploy, folder: this.cwd });
    return [
      `import { createServer } from ${JSON.stringify(join(REPOSITORY, "dist/index.js"))};`,
      `import { mixOf } from ${JSON.stringify(join(REPOSITORY, "test/runs/torture/mix/agents.ts"))};`,
      `export default createServer({ ...mixOf(${code}), maxConcurrentJobs: 16 });`,
      "",
    ].join("\n");
  }

  async prepare(client: ServiceClient): Promise<void> {
    for (const { id, next, last } of await client.get<Schedule[]>("/schedules"))
      this.#first.set(id, last?.at ?? next!);
  }

  jobsOf(round: number, random: () => number): MixJob[] {
    const jobs = KINDS.flatMap((kind) =>
      Array.from({ length: this.#jobsPerKind }, (_, n) => {
        const later = () => round + Math.floor(random() * 4);
        const id = `r${round}-${kind}-${n + 1}`;
        const given = { tag: id, ...fieldsOf(kind, random) };
        return new MixJob(
          id,
          { slug: slugOf(kind), fields: given },
          {
            kind,
            amount: ++this.#count,
            answerFrom: later(),
            eventsFrom: later(),
            stopFrom: kind === "family" && random() < 0.4 ? later() : undefined,
          },
        );
      }),
    );
    this.#started.push(...jobs);
    return jobs;
  }

  async disturb(client: ServiceClient, { round, jobs, isOver, random }: Under): Promise<void> {
    for (const job of jobs as readonly MixJob[]) {
      await delay(random() * 60);
      if (isOver.value) return;
      if (isToStop(job) && job.stopFrom! <= round) await stop(client, job);
      // Some events come before their job is started.
      if (job.eventsFrom <= round) await sendNext(client, job);
    }
  }

  deploy(): void {
    this.#deploy++;
    this.#deploys++;
  }

  async inspect(client: ServiceClient, findings: Findings): Promise<void> {
    for (const open of await readOpen(client)) await this.#inspectOne(client, open, findings);
  }

  async settle(
    subject: Subject,
    first: ServiceClient,
    jobs: readonly TrialJob[],
    findings: Findings,
  ): Promise<ServiceClient> {
    let client = first;
    await this.pause(client);
    for (let turn = 0; turn <= PERIOD; turn++) {
      if (turn > 0) {
        this.deploy();
        client = await subject.restart();
        await this.inspect(client, findings);
      }
      if (await this.endAll(client, jobs, findings)) return client;
    }
    for (const { job } of await readOpen(client))
      findings.wrong.push(`job ${job.id} does not end, whatever code the service has: ${job.error}`);
    return client;
  }

  /** Pauses the schedules, and remembers which times are decided. */
  async pause(client: ServiceClient): Promise<void> {
    for (const { id } of SCHEDULES) {
      const paused = await client.post<Schedule>(`/schedules/${id}/pause`, {});
      this.#watched.set(id, { first: this.#first.get(id)!, paused });
    }
  }

  /** Waits until all jobs have ended except for those that do not fit this code; returns whether all have. */
  async endAll(client: ServiceClient, jobs: readonly TrialJob[], findings: Findings): Promise<boolean> {
    let left: readonly OpenJob[] = [];
    let last = "";
    let idle = 0;
    for (let until = Date.now() + LAST_WAIT * 1000; idle < PASSES || Date.now() < until; idle++) {
      await delay(100);
      await inLanes(jobs as readonly MixJob[], async (job) => {
        if (isToStop(job)) await stop(client, job);
        await sendNext(client, job);
      });
      left = await readOpen(client);
      if (left.length === 0) return true;
      // As long as jobs end or record something, the others only wait for a busy machine, on which one pass may take minutes.
      const lines = left.reduce((sum, { log }) => sum + log.length, 0);
      if (`${left.length} ${lines}` !== last) {
        until = Date.now() + LAST_WAIT * 1000;
        idle = 0;
        last = `${left.length} ${lines}`;
      }
      const open = new Set(left.map(({ job }) => job.id));
      const asking = jobs.filter(({ id }) => open.has(id));
      await inLanes(asking, (job) => answerAll(client, job));
      for (const { job } of left) if (job.stop_reason === "crash_loop") await retry(client, job.id);
      if (left.every(({ job, log }) => job.held && !isBeginning(planOfJob(job, this.#deploy), log)))
        return false;
    }
    for (const { job } of left)
      if (!job.held) findings.wrong.push(`job ${job.id} does not end, it is ${job.status}`);
      else findings.wrong.push(`job ${job.id} stays held, although its record fits the code: ${job.error}`);
    return false;
  }

  check(job: TrialJob, outcome: Outcome, findings: Findings): void {
    const one = job as MixJob;
    this.#ended.set(one.id, { label: one.label, outcome });
    if (one.kind === "listener") checkListener(one, outcome, findings);
    else if (one.kind === "family") checkFamily(one, outcome, findings);
    else checkPlanned(one, outcome, { findings, deploysBetween: (a, b) => this.#lives.deploysBetween(a, b) });
  }

  async checkRest(client: ServiceClient, findings: Findings): Promise<MixCounts> {
    const members = new Map(this.#ended);
    const all = await readPages<{ job_id: string; status: EntityStatus }>(client, "/jobs?limit=1000", 1000);
    await inLanes(all, async ({ job_id: id, status }) => {
      if (members.has(id)) return;
      if (!isTerminal(status)) {
        findings.wrong.push(`job ${id} has not ended, its status is ${status}`);
        return;
      }
      const outcome = await readOutcome(client, id);
      const { parent, schedule, job_fields } = outcome.job;
      const label = parent ? `child ${job_fields?.tag} (${id})` : `job ${id}`;
      members.set(id, { label, outcome });
      checkRecord(label, outcome, findings);
      if (!parent && !schedule) findings.doubled.push(`${label}: nobody has started it`);
    });
    const journal = new Journal(await readFile(join(this.cwd, JOURNAL_FILE), "utf8"));
    for (const [id, { label, outcome }] of members) {
      journal.check(label, String(outcome.job.job_fields?.tag ?? id), outcome, findings);
      checkOwners(label, outcome, findings);
    }
    const children = checkChildren(members, findings);
    const jobs = [...members.values()].map(({ outcome }) => outcome.job);
    const scheduled = checkSchedules(
      jobs,
      { watched: this.#watched, since: this.#lives.first!.from },
      findings,
    );
    const received = await readPages<ReceivedEvent<{ order: string }>>(client, "/events?limit=1000", 1000);
    const events = checkReceived(received, this.#started, findings);
    const counts = { children, events, scheduled, effects: journal.size };
    const outcomes = [...members.values()].map(({ outcome }) => outcome);
    const takeOvers = readTakeOvers(outcomes, this.#lives);
    return { deploys: this.#deploys, held: this.#held.size, ...counts, takeOvers };
  }

  /** A job that is held must not fit the code that holds it; one in a crash loop is retried, as a person would. */
  async #inspectOne(client: ServiceClient, { job, log }: OpenJob, findings: Findings): Promise<void> {
    if (job.stop_reason === "crash_loop") await retry(client, job.id);
    if (!job.held) return;
    const { at, message } = job.held;
    if (this.#held.has(`${job.id} ${at}`)) return;
    this.#held.add(`${job.id} ${at}`);
    const reasons = [...this.#lives.deploysBetween(at, at)].map((deploy) =>
      whyNotHeld(planOfJob(job, deploy), job.held!, log),
    );
    if (reasons.every((why) => why !== undefined))
      findings.wrong.push(`job ${job.id} is held, but ${reasons.join(" and ")}: ${message}`);
  }
}

/** What the code of a deploy does for a job; undefined where that never changes. */
function planOfJob({ agent_name, job_fields }: OpenJob["job"], deploy: number): Plan | undefined {
  if (agent_name !== "planned") return undefined;
  return planOf(job_fields!.kind as PlanKind, deploy);
}

function slugOf(kind: MixKind): string {
  return kind === "pair" || kind === "family" || kind === "listener" ? kind : "planned";
}

function fieldsOf(kind: MixKind, random: () => number): Record<string, unknown> {
  if (kind === "family") return { depth: random() < 0.3 ? 2 : 1 };
  return slugOf(kind) === "planned" ? { kind } : {};
}

/** Whether it is a family whose stop is not acknowledged yet. */
function isToStop(job: MixJob): boolean {
  return job.stopFrom !== undefined && job.isAcknowledged && !job.isStopped && !job.isOver;
}

async function sendNext(client: ServiceClient, job: MixJob): Promise<void> {
  const id = job.nextEvent;
  if (id === undefined || job.isSending) return;
  job.isSending = true;
  try {
    await client.post("/events/paid", { id, data: { order: job.id, n: job.sent } });
    job.sent++;
  } finally {
    job.isSending = false;
  }
}

async function stop(client: ServiceClient, job: MixJob): Promise<void> {
  job.isStopSent = true;
  try {
    const body = { job_context: { job_id: job.id } };
    const { status } = await client.post<{ status: EntityStatus }>("/agents/family/stop", body);
    job.isStopped = true;
    job.mustBeCancelled = status === "cancelling" || status === "cancelled";
  } catch (error) {
    if (error instanceof UnreachableError) throw error;
    // It has ended.
    job.isStopped = true;
  }
}

/** Several kills in a row may have met a job without progress: then it is held. */
async function retry(client: ServiceClient, jobId: string): Promise<void> {
  await client.post(`/jobs/${jobId}/retry`, { from: "last_step" }).catch(() => {});
}

async function readOpen(client: ServiceClient): Promise<OpenJob[]> {
  const open: OpenJob[] = [];
  for await (const line of client.lines("/utils/open-jobs")) open.push(JSON.parse(line) as OpenJob);
  return open;
}
