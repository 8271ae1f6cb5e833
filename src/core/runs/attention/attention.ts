import { countOf } from "../../base/count-of.ts";
import { getOrMake } from "../../base/get-or-make.ts";
import type { Cases } from "../../entities/cases.ts";
import { seesAgent } from "../../entities/in-sight.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { Sight } from "../../models/access.ts";
import { ATTENTION_KINDS, type AttentionItem } from "../../models/attention.ts";
import { HELD_JOBS, type HoldReason } from "../../models/job-state.ts";
import type { BudgetUse } from "../../models/spending.ts";
import type { BackupState } from "../../store/backup/backups.ts";
import type { ShippingHealth, Store } from "../../store/store.ts";
import type { Budgets } from "../queue/budgets.ts";
import type { Runner } from "../runner.ts";
import type { FailureMarks } from "./failure-marks.ts";
import { type FailureTrend, readTrends } from "./failure-trends.ts";
import { type StuckJob, StuckJobs } from "./stuck-jobs.ts";
import { spanOf } from "./words.ts";

/** Milliseconds for which what was found is given again, however many ask. */
const KEPT = 2000;
/** Callers who see different parts, for whom that is kept. */
const CALLERS = 200;
/** Reasons of failures that are named. */
const TRENDS = 10;
/** Ids of stuck jobs that are given. */
const IDS = 100;

interface AttentionParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly budgets: Pick<Budgets, "list">;
  readonly marks: FailureMarks;
  readonly store: Pick<Store, "health">;
  readonly runner: Runner;
  readonly backups: () => BackupState | undefined;
  /** Messages that were given up. */
  readonly deadLetters: () => Promise<number>;
  readonly clock: () => Date;
}

type Found = Pick<AttentionItem, "kind" | "severity" | "text"> & Partial<AttentionItem>;

/**
 * Finds what needs a person. Pages, routes and metrics have it from here: nothing else decides what does. It reads counts
 * from indexes, and the bodies of the few jobs that it names.
 */
export class Attention {
  readonly #parts: AttentionParts;
  readonly #stuck: StuckJobs;
  #knownStuck: { readonly at: number; readonly jobs: Promise<StuckJob[]> } | undefined;
  /** By who asked: what they see. */
  readonly #known = new Map<string, { readonly at: number; readonly items: Promise<AttentionItem[]> }>();

  /** What people have decided about reasons of failures. */
  get marks(): FailureMarks {
    return this.#parts.marks;
  }

  constructor(parts: AttentionParts) {
    this.#parts = parts;
    this.#stuck = new StuckJobs(parts.runner);
  }

  /** All that needs a person, the most urgent first. */
  read(): Promise<AttentionItem[]> {
    return this.#keep("", (now) =>
      this.#find(this.#parts.jobs, this.#parts.cases, now, [this.#ofService(), this.#ofAgents(() => true)]),
    );
  }

  /** The same for a caller who sees a part: only what is about that. */
  seenBy(
    sight: Sight,
    { jobs, cases }: { readonly jobs: Jobs; readonly cases: Cases },
  ): Promise<AttentionItem[]> {
    // A budget and a pause are about all jobs of an agent.
    return this.#keep(JSON.stringify(sight), (now) =>
      this.#find(jobs, cases, now, [this.#ofAgents((slug) => seesAgent(sight, slug))]),
    );
  }

  #keep(who: string, find: (now: number) => Promise<AttentionItem[]>): Promise<AttentionItem[]> {
    const now = this.#parts.clock().getTime();
    const known = this.#known.get(who);
    if (known && now >= known.at && now - known.at < KEPT) return known.items;
    if (this.#known.size >= CALLERS) this.#known.clear();
    const items = find(now);
    this.#known.set(who, { at: now, items });
    items.catch(() => this.#known.delete(who));
    return items;
  }

  /** The ids of all jobs that are stuck. */
  async stuck(): Promise<string[]> {
    return (await this.#findStuck(this.#parts.clock().getTime())).map(({ id }) => id);
  }

  #findStuck(now: number): Promise<StuckJob[]> {
    const known = this.#knownStuck;
    if (known && now >= known.at && now - known.at < KEPT) return known.jobs;
    const jobs = this.#stuck.find(this.#parts.jobs, now);
    this.#knownStuck = { at: now, jobs };
    jobs.catch(() => {
      this.#knownStuck = undefined;
    });
    return jobs;
  }

  async #find(
    jobs: Jobs,
    cases: Cases,
    now: number,
    more: readonly Promise<Found[]>[],
  ): Promise<AttentionItem[]> {
    const found = await Promise.all([
      (jobs === this.#parts.jobs ? this.#findStuck(now) : this.#stuck.find(jobs, now)).then((stuck) =>
        toStuck(stuck, now),
      ),
      findHeld(jobs),
      this.marks
        .read()
        .then((marks) => readTrends(jobs, now, marks))
        .then((trends) => trends.slice(0, TRENDS).map((trend) => toTrend(trend, now))),
      findOverdue(cases, now),
      ...more,
    ]);
    const items = found.flat().map((one): AttentionItem => ({ ...NOTHING_ELSE, job_ids: [], ...one }));
    return items.sort((a, b) => ATTENTION_KINDS.indexOf(a.kind) - ATTENTION_KINDS.indexOf(b.kind));
  }

  async #ofService(): Promise<Found[]> {
    const { store, backups, deadLetters } = this.#parts;
    const { writable, error, shipping } = store.health();
    const failed = backups()?.error ?? null;
    const dead = await deadLetters();
    const are = dead === 1 ? "is a dead letter" : "are dead letters";
    return [
      ...(writable ? [] : [bad("store", `The store cannot write: ${error ?? "see the log"}.`)]),
      ...(shipping?.error ? [bad("store", `New writes are on this disk only: ${shipping.error}.`)] : []),
      ...toSetAside(shipping?.set_aside ?? []),
      ...toRestored(shipping?.restored ?? null),
      ...(failed === null ? [] : [warn("backup", `The store could not be backed up: ${failed}.`)]),
      ...(dead === 0
        ? []
        : [
            {
              ...warn("deliveries", `${countOf(dead, "event")} could not be delivered and ${are}.`),
              count: dead,
            },
          ]),
    ];
  }

  async #ofAgents(sees: (slug: string) => boolean): Promise<Found[]> {
    const { budgets, runner } = this.#parts;
    const paused = runner.pausedAgents.filter(sees).map((agent) => ({
      ...warn("paused", `${agent} is paused: its new jobs wait in line.`),
      agent,
    }));
    const uses = (await budgets.list()).filter(({ agent }) => sees(agent));
    return [...uses.flatMap(toBudget), ...paused];
  }
}

function toSetAside({ length }: readonly string[]): Found[] {
  if (length === 0) return [];
  const are = length === 1 ? "is" : "are";
  const text = `${countOf(length, "folder")} with writes that never reached the storage ${are} set aside on this disk.`;
  return [{ ...warn("store", text), count: length }];
}

/** Until the next start, as it concerns what this one found. */
function toRestored(restored: ShippingHealth["restored"]): Found[] {
  if (!restored?.may_lack) return [];
  const asOf = restored.as_of === null ? "" : ` as of ${restored.as_of.slice(0, 19).replace("T", " ")} UTC`;
  return [warn("store", `The store was restored from the storage${asOf}: later writes may be missing.`)];
}

const NOTHING_ELSE = { count: 1, agent: null, reason: null, since: null } as const;

function bad(kind: AttentionItem["kind"], text: string): Found {
  return { kind, severity: "bad", text };
}

function warn(kind: AttentionItem["kind"], text: string): Found {
  return { kind, severity: "warn", text };
}

/** One line for each agent and step. */
function toStuck(stuck: readonly StuckJob[], now: number): Found[] {
  const groups = new Map<string, StuckJob[]>();
  for (const one of stuck) getOrMake(groups, JSON.stringify([one.agent, one.step]), () => []).push(one);
  return [...groups.values()].map((group) => {
    const [{ agent, step, since, usual }] = group as [StuckJob];
    const what = step === null ? "nothing was recorded" : `step "${step}" has run`;
    const usually = step === null ? "a step usually takes" : "usually it takes";
    return {
      ...bad(
        "stuck",
        `${countOf(group.length, "job")} of ${agent} ${group.length === 1 ? "is" : "are"} stuck: ${what} for ${spanOf(now - since)}, ${usually} ${spanOf(usual)}.`,
      ),
      ...{ agent, count: group.length, since: new Date(since).toISOString() },
      job_ids: group.slice(0, IDS).map(({ id }) => id),
    };
  });
}

const HOLDS: Readonly<Record<HoldReason, string>> = {
  code_changed: "the code changed",
  crash_loop: "the process ended at each of their runs",
  unreadable_parameters: "the parameters cannot be read",
};

/** Nothing runs of a held job, and an answer to it waits, too: one line for each agent and reason. */
async function findHeld(jobs: Jobs): Promise<Found[]> {
  const lines = await Promise.all(
    HELD_JOBS.stop_reason.map(async (reason) => {
      const counts = await jobs.countBy("agent_name", { where: { ...HELD_JOBS, stop_reason: reason } });
      return Object.entries(counts)
        .filter(([, count]) => count > 0)
        .map(([agent, count]) => toHeld(agent, reason, count));
    }),
  );
  return lines.flat();
}

function toHeld(agent: string, reason: HoldReason, count: number): Found {
  const are = count === 1 ? "is" : "are";
  const rest = count === 1 ? "It does" : "They do";
  return {
    ...warn(
      "held",
      `${countOf(count, "job")} of ${agent} ${are} held: ${HOLDS[reason]}. ${rest} not run until somebody decides.`,
    ),
    ...{ agent, reason, count },
  };
}

function toTrend({ failure, state, count, error, agent, version, since }: FailureTrend, now: number): Found {
  const code = version === null ? agent : `${agent} ${version}`;
  const ago = since === null ? "" : `, first ${spanOf(Math.max(0, now - Date.parse(since)))} ago`;
  const jobs = `${countOf(count, "job")} failed`;
  const what = {
    new: `${jobs} for a new reason in ${code}${ago}`,
    grows: `${jobs} in a day for a reason that grows, in ${code}`,
    returned: `${jobs} again for a reason that was resolved, in ${code}`,
  }[state];
  return { ...bad("failures", `${what}: ${error}`), ...{ agent, reason: failure, count, since } };
}

async function findOverdue(cases: Cases, now: number): Promise<Found[]> {
  const where = { status: "awaiting", deadline: { gte: 0, lt: now } };
  const { total } = await cases.list({ where, limit: 0 });
  if (total === 0) return [];
  const are = total === 1 ? "is" : "are";
  return [{ ...warn("questions", `${countOf(total, "question")} ${are} past the deadline.`), count: total }];
}

function toBudget({ agent, period, budget, spent }: BudgetUse): Found[] {
  if (spent < budget * 0.8) return [];
  const isOver = spent >= budget;
  const used = isOver ? "all" : `${Math.floor((spent / budget) * 100)}%`;
  const text = `${agent} has used ${used} of its budget of the ${period}.`;
  return [{ ...(isOver ? bad : warn)("budget", text), agent, reason: period }];
}
