import type { AgentRegistry } from "../agents/registry.ts";
import { KEPT_STATUSES, type RetentionPolicy, withOverride } from "../agents/retention-policy.ts";
import type { Workspaces } from "../agents/workspaces.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { SYSTEM } from "../audit/caller.ts";
import type { Logger } from "../base/log.ts";
import type { StartTimer } from "../base/timer.ts";
import type { Ledger, Unit } from "../entities/ledger.ts";
import type { RemovedBatch, RetentionState } from "../models/own-rows.ts";
import type { Store } from "../store/store.ts";
import { ClockGuard, HOLD } from "./clock-guard.ts";
import { countDue, type DueCount, type PolicyOf } from "./due-jobs.ts";
import { eraseDeleted } from "./erase-deleted.ts";
import { removeEvents } from "./remove-events.ts";
import { sweep } from "./sweep.ts";

/** Bounds of the time from one sweep to the next, milliseconds; in between, a hundredth of the shortest time to keep. */
const OFTEN = 1000;
const SELDOM = 10 * 60_000;
const DAY = 24 * 3_600_000;

export interface RetentionParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly agents: AgentRegistry;
  readonly policy: RetentionPolicy;
  readonly workspaces: Workspaces;
  readonly audit: AuditLog;
  /** Milliseconds that the audit log is kept; `null` keeps it indefinitely. */
  readonly auditKeep: number | null;
  /** Milliseconds that received events are kept; `null` keeps them indefinitely. */
  readonly eventKeep: number | null;
  /** Milliseconds that deleted jobs can be restored; `null` keeps them indefinitely. */
  readonly deletedKeep: number | null;
  readonly log: Logger;
  readonly clock: () => Date;
  /** Milliseconds of a monotonic clock. */
  readonly elapsed: () => number;
  /** Ends waits at their time of day. */
  readonly startTimer: StartTimer;
}

/** Removes expired jobs, with everything that belongs to them, deleted jobs after their time, and expired events. */
export class Retention {
  readonly #parts: RetentionParts;
  #guard: ClockGuard | undefined;
  #stopTimer: () => void = () => {};
  #running: Promise<unknown> | undefined;
  #isClosed = false;
  #isHeld = false;

  constructor(parts: RetentionParts) {
    this.#parts = parts;
  }

  /** How long jobs of an agent are kept, in a workspace where that has times of its own. */
  policyOf(agent: string, workspace?: string): RetentionPolicy {
    const { agents, policy, workspaces } = this.#parts;
    const own = withOverride(policy, agents.find(agent)?.definition.retention);
    return workspace === undefined ? own : workspaces.policyOf(workspace, own);
  }

  get #policies(): PolicyOf {
    const { workspaces } = this.#parts;
    return Object.assign((...of: [string, string?]) => this.policyOf(...of), { workspaces });
  }

  /** What is due now. */
  due(): Promise<DueCount[]> {
    const { store, clock } = this.#parts;
    return countDue(store, this.#policies, clock());
  }

  /** What was removed last, and since when the store counts. */
  state(): Promise<RetentionState | undefined> {
    return this.#parts.store.table("Retention").get("state");
  }

  /** Starts removing, if there is a retention policy at all. */
  start(): void {
    const pause = this.#pause();
    if (pause === undefined || this.#isClosed) return;
    const turn = (): void => {
      this.#running = this.run()
        .catch((error: unknown) => this.#parts.log.warn("expired jobs could not be removed yet", { error }))
        .finally(() => {
          if (!this.#isClosed) this.#stopTimer = this.#parts.startTimer(pause, turn, "schedule");
        });
    };
    this.#stopTimer = this.#parts.startTimer(0, turn, "schedule");
  }

  /** Removes what is due, unless the clock cannot be trusted; resolves with what was removed. */
  async run(): Promise<RemovedBatch[]> {
    const { store, ledger, clock, log, audit, auditKeep, eventKeep } = this.#parts;
    const now = clock();
    if (await this.#isAhead(now)) return [];
    const removed = await sweep(
      {
        store,
        ledger,
        policyOf: this.#policies,
        isOver: () => this.#isClosed,
        onRefused: (jobId, error) =>
          log.debug("a plugin refuses that a job is removed", { job_id: jobId, error: error.message }),
        note: async (unit, batch) => {
          await noteRemoval(unit, batch);
          const { agent, ...after } = batch;
          const target = { kind: "agent", id: agent };
          await audit.write(unit, { by: SYSTEM, action: "retention.remove", target, after });
        },
      },
      now,
    );
    if (removed.length > 0) log.info("expired jobs were removed", summaryOf(removed));
    const erased = await this.#eraseDeleted(now);
    if (erased > 0) log.info("deleted jobs were removed permanently", { jobs: erased });
    if (auditKeep !== null) await audit.trim(now.getTime() - auditKeep);
    if (eventKeep !== null) {
      const isOver = () => this.#isClosed;
      const count = await removeEvents({ store, ledger, isOver }, now.getTime() - eventKeep);
      if (count > 0) log.info("expired events were removed", { events: count });
    }
    return removed;
  }

  /** Stops after the current batch. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    await this.#running;
  }

  /** Removes deleted jobs whose time is over, or that would have expired if they had not been deleted. */
  #eraseDeleted(now: Date): Promise<number> {
    const { store, ledger, log, deletedKeep } = this.#parts;
    return eraseDeleted(
      {
        ...{ store, ledger, deletedKeep },
        policyOf: this.#policies,
        isOver: () => this.#isClosed,
        onRefused: (jobId, error) =>
          log.debug("a plugin refuses that a job is removed", { job_id: jobId, error: error.message }),
      },
      now,
    );
  }

  async #isAhead(now: Date): Promise<boolean> {
    const reading = { time: now.getTime(), elapsed: this.#parts.elapsed() };
    this.#guard ??= new ClockGuard({ ...reading, time: await this.#newestTime(reading.time) });
    const ahead = this.#guard.ahead(reading);
    if (ahead > 0 && !this.#isHeld) {
      this.#parts.log.warn(
        "the clock is far ahead of the latest stored time: no jobs are removed for some minutes, in case it is wrong",
        { days: Math.round(ahead / DAY), minutes: HOLD / 60_000 },
      );
    }
    this.#isHeld = ahead > 0;
    return this.#isHeld;
  }

  /** The latest time in the store: when the service was certainly up. */
  async #newestTime(now: number): Promise<number> {
    const { items } = await this.#parts.store.table("Job").list({ sort: "-updated_at", limit: 1 });
    const times = [items[0]?.updated_at, (await this.state())?.at].filter((time) => time !== undefined);
    return times.length === 0 ? now : Math.max(...times.map((time) => Date.parse(time)));
  }

  /** Milliseconds from one sweep to the next; `undefined` if all jobs are kept indefinitely. */
  #pause(): number | undefined {
    const policies = [
      this.#parts.policy,
      ...this.#parts.agents.list().map(({ slug }) => this.policyOf(slug)),
    ];
    const all = policies.flatMap((policy) => this.#parts.workspaces.policies(policy));
    const times = all.flatMap((policy) => KEPT_STATUSES.map((status) => policy[status]));
    // Where nothing is kept, there is nothing to wait for.
    times.push(this.#parts.auditKeep, this.#parts.eventKeep, this.#parts.deletedKeep || null);
    const shortest = Math.min(...times.filter((time) => time !== null));
    return shortest === Number.POSITIVE_INFINITY
      ? undefined
      : Math.min(Math.max(shortest / 100, OFTEN), SELDOM);
  }
}

/** Keeps count of what was removed, in the transaction that removes it. */
async function noteRemoval(unit: Unit, batch: RemovedBatch): Promise<void> {
  const before = await unit.tx.get("Retention", "state");
  const next: RetentionState = {
    id: "state",
    at: unit.now,
    jobs: (before?.jobs ?? 0) + batch.jobs,
    cases: (before?.cases ?? 0) + batch.cases,
    since: before?.since ?? unit.now,
    last: batch,
  };
  if (before) await unit.tx.change("Retention", "state", () => next);
  else await unit.tx.insert("Retention", next);
}

/** Number of removed jobs, by agent and status, for the log. */
function summaryOf(removed: readonly RemovedBatch[]): Record<string, unknown> {
  const groups: Record<string, number> = {};
  for (const { agent, status, jobs } of removed) {
    const name = `${agent} ${status}`;
    groups[name] = (groups[name] ?? 0) + jobs;
  }
  const sum = (of: (batch: RemovedBatch) => number) => removed.reduce((total, one) => total + of(one), 0);
  return {
    jobs: sum(({ jobs }) => jobs),
    cases: sum(({ cases }) => cases),
    groups,
    oldest: removed.map(({ oldest }) => oldest).sort()[0],
  };
}
