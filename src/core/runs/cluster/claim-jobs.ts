import type { HostedAgent } from "../../agents/registry.ts";
import { endCases } from "../../entities/change-case.ts";
import { changeJob, endJob, holdJob, moveJob, releaseJob } from "../../entities/change-job.ts";
import { TO_CANCELLING } from "../../entities/ending.ts";
import { isRefusal, type Unit } from "../../entities/ledger.ts";
import { removeWaits } from "../../entities/received-events.ts";
import { caseIdsOf, removeCasesOf } from "../../entities/remove-job.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import { holdOf, isIn, stateOf } from "../../models/job-state.ts";
import type { DamagedJob } from "../../models/own-rows.ts";
import type { MarkEntry, RunEntry } from "../../models/run-entry.ts";
import { laterOf } from "../../store/timestamp.ts";
import { endCancelled } from "../operate/end-cancelled.ts";
import type { TurnKind } from "../queue/turn-kind.ts";
import { isStorageError, whenWritable } from "../queue/when-writable.ts";
import { dropArtifacts, endsOf, tagsAfter } from "../replay/call-additions.ts";
import { parentEndOf } from "../replay/children.ts";
import { whyUnreadable } from "../replay/handler-context.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import { RunRecord } from "../replay/run-record.ts";
import { toCancelling } from "../replay/stopping.ts";
import type { RequestParts } from "../runner-parts.ts";
import { MOST_CRASHES } from "./count-crashes.ts";
import type { Crash } from "./read-crash.ts";
import type { Loss } from "./read-loss.ts";
import type { Suspect } from "./suspects.ts";

/** How jobs are resumed whose owners are gone: at the start of the only instance of a store, or by one of several. */
export interface Claimant {
  /** When the owner of the jobs was last seen alive, ISO 8601, where that is known. */
  readonly aliveUntil?: string | undefined;
  /** What the end of its owner was to a job; `last` is the end of its log. */
  lossOf(job: StoredJob, last: RunEntry | undefined): Promise<Loss>;
  /** What the mark of an interruption says of it besides. */
  markOf(job: StoredJob, loss: Loss): Pick<MarkEntry, "run" | "watched" | "beside">;
  /** Of jobs that were under way, those that this instance does not resume now. */
  later(suspects: readonly Suspect[]): readonly Suspect[];
  /** Makes this instance the owner of a job inside a unit, or nobody where it is left. */
  own(unit: Unit, job: StoredJob, isLeft: boolean): Promise<void>;
  /** Called before a job is started over. */
  beforeRestart(jobId: string): Promise<void>;
  /** Of jobs that somebody has changed meanwhile, those to plan again. */
  again(changed: readonly StoredJob[]): readonly StoredJob[];
}

interface ClaimParts extends RequestParts {
  readonly claimant: Claimant;
}

/** Jobs in one transaction, so that a start with many of them needs few. */
export const BATCH = 500;

/** Claims jobs without a living owner, and continues each as its agent declares. */
export async function claimJobs(parts: ClaimParts, found: readonly StoredJob[]): Promise<void> {
  const round = roundOf(found);
  while (round.left.length > 0) await takeUp(parts, round);
  resumeSuspects(parts, round);
}

/**
 * The same at the start of a service. If the store cannot write, it still resolves: the service responds, and resumes the
 * jobs later.
 */
export async function claimAtStart(parts: ClaimParts, found: readonly StoredJob[]): Promise<void> {
  const { log, scheduler } = parts;
  const round = roundOf(found);
  try {
    do await takeUp(parts, round);
    while (round.left.length > 0);
  } catch (error) {
    if (!isStorageError(error)) throw error;
    log.error("the store cannot write: unfinished jobs are resumed once it can", {
      jobs: round.left.length,
      error: error.message,
    });
    void takeUpLater(parts, round)
      .then(() => resumeSuspects(parts, round))
      .catch((problem: unknown) => {
        if (!scheduler.isClosed) log.error("unfinished jobs could not be resumed", { error: problem });
      });
    return;
  }
  resumeSuspects(parts, round);
}

/** Those that were under way come after the others. */
function resumeSuspects({ suspects }: ClaimParts, round: Round): void {
  void suspects.resume(round.suspects, Promise.all(round.others));
}

/** Jobs that are claimed together. */
interface Round {
  readonly left: StoredJob[];
  /** Settle once the resumed ones have got a slot. */
  readonly others: Promise<unknown>[];
  readonly suspects: Suspect[];
}

function roundOf(found: readonly StoredJob[]): Round {
  return { left: [...found], others: [], suspects: [] };
}

/** Resumes the first of some jobs, and removes them from the list. */
async function takeUp(parts: ClaimParts, round: Round, most = BATCH): Promise<void> {
  try {
    await takeUpTogether(parts, round, most);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const [job] = round.left;
    // What is refused of one job must not hold up the others.
    if (most > 1) return takeUp(parts, round, 1);
    parts.log.error("a job could not be resumed: a plugin refused the change", { job_id: job?.id, error });
    round.left.shift();
  }
}

async function takeUpTogether(
  parts: ClaimParts,
  { left, others, suspects }: Round,
  most: number,
): Promise<void> {
  const damaged = new Map((await parts.jobs.damaged()).map((row) => [row.id, row]));
  const due = left.slice(0, most);
  const batch = await Promise.all(
    due.map((job) => {
      const damage = damaged.get(job.id);
      return damage && job.status !== "cancelling" ? endDamaged(parts, job, damage) : plan(parts, job);
    }),
  );
  const { claimant } = parts;
  // Together: one after another inside the transaction, each would be a round trip to a database.
  await Promise.all(due.map(({ id }) => parts.jobs.find(id)));
  const later = claimant.later(batch.flatMap(({ suspect }) => suspect ?? []));
  const { own, changed } = await parts.ledger.write(async (unit) => {
    const own: Plan[] = [];
    const changed: StoredJob[] = [];
    for (const [at, one] of batch.entries()) {
      if (one.suspect && later.includes(one.suspect)) continue;
      const job = due[at]!;
      const current = await unit.tx.get("Job", job.id);
      if (one.isLeft && !one.store) continue;
      // The plan fits no longer: somebody has changed, ended or claimed the job since it was read.
      if (!isUnchanged(job, current)) {
        if (current && !isTerminal(current.status)) changed.push(current);
        continue;
      }
      await claimant.own(unit, job, one.isLeft === true);
      await one.store?.(unit);
      own.push(one);
    }
    // A later job of the same id is another one.
    for (const id of damaged.keys()) {
      const job = await unit.tx.get("Job", id);
      if (!job || isIn(job, "ended", "stopping")) await unit.tx.remove("DamagedJob", id);
    }
    return { own, changed };
  });
  // Immediately: from here on the jobs' logs have the crash.
  const open = new Set(changed.map(({ id }) => id));
  for (const { id } of due) if (!open.has(id)) parts.underWay?.settle(id);
  left.splice(0, most);
  left.push(...claimant.again(changed));
  for (const { proceed, suspect } of own) {
    const turn = proceed?.();
    if (turn) others.push(turn);
    // One log at most is kept: a start may find many suspects.
    if (suspect) suspects.push(suspects.length === 0 ? suspect : { ...suspect, entries: undefined });
  }
}

function isUnchanged(planned: StoredJob, current: StoredJob | undefined): boolean {
  return (
    current !== undefined &&
    current.created_at === planned.created_at &&
    current.status === planned.status &&
    current.run_count === planned.run_count &&
    (current.owner ?? null) === (planned.owner ?? null)
  );
}

async function takeUpLater(parts: ClaimParts, round: Round): Promise<void> {
  const { jobs, scheduler } = parts;
  const { left } = round;
  while (left.length > 0) {
    await whenWritable(
      async () => {
        const now = await Promise.all(left.slice(0, BATCH).map(({ id }) => jobs.find(id)));
        // Somebody may have ended or started one in the meantime.
        const due = now.filter(
          (job, at) => job && !isTerminal(job.status) && job.run_count === left[at]!.run_count,
        );
        while (due.length > 0) await takeUp(parts, { ...round, left: due as StoredJob[] });
        left.splice(0, now.length);
      },
      (error) => {
        if (scheduler.isClosed) throw error;
      },
    );
  }
}

/** What to store for a job before anything is done, and what to do then. */
interface Plan {
  readonly store?: (unit: Unit) => Promise<unknown>;
  /** Resolves once the job's turn has come. */
  readonly proceed?: () => Promise<unknown>;
  /** Whether no instance may own it. */
  readonly isLeft?: boolean;
  /** In place of `proceed`: the job was under way at a crash. */
  readonly suspect?: Suspect;
}

async function plan(parts: ClaimParts, job: StoredJob): Promise<Plan> {
  const { agents, claimant, cluster, tries, turns } = parts;
  const agent = agents.of(job);
  if (job.status === "cancelling") return { proceed: () => endCancelled(parts, job, agent) };
  const end = await parentEndOf(parts, job);
  if (end) return stopOrphan(parts, job, { end, agent });
  const state = stateOf(job);
  const reason = holdOf(job);
  if (reason === "crash_loop" || state === "pulled" || state === "parked") return {};
  if (state === "queued" && !(await isQueued(parts, job))) return {};
  if (!agent) return waitForAgent(parts, job);
  if (state === "queued") return { proceed: () => turns.queue(job, "start") };
  if (reason === "unreadable_parameters") return resumeIfReadable(parts, job, agent);
  if (reason) return { proceed: () => tries.try(job) };

  const policy = agent.definition.onInterruption ?? "resume";
  const message = "The process ended while the job was in progress";
  const last = await lastEntry(parts, job);
  const since = downSince(last, claimant.aliveUntil);
  const loss = await claimant.lossOf(job, last);
  const { crash } = loss;
  const interrupted = (unit: Unit) =>
    unit.record(job.id, {
      ...{ type: "mark", mark: "interrupted", message, since: earlierOf(since, unit.now) },
      ...(crash && !loss.isKnown && { doing: crash.doing }),
      ...claimant.markOf(job, loss),
    });
  if (policy === "fail") return fail(parts, job, { message, reason: "interrupted", note: interrupted });
  if (crash && crash.count >= MOST_CRASHES && !crash.beside)
    return hold(parts, job, { ...crash, note: interrupted });
  const goOn = (kind: TurnKind): Plan => {
    const before = async () => {
      if (kind === "start") await claimant.beforeRestart(job.id);
    };
    if (crash) {
      const { count: crashes, beside, entries } = crash;
      return { suspect: { job, kind, crashes, beside, entries, before } };
    }
    return {
      proceed: async () => {
        if (loss.isWatched) cluster.watched.watch(job.id, kind === "start");
        await before();
        return turns.queue(job, kind);
      },
    };
  };
  if (policy === "resume") return { store: interrupted, ...goOn("resume") };
  const calls = { gone: endsOf((await RunRecord.of(parts.jobs, job.id)).ended), kept: [] };
  return {
    store: async (unit) => {
      await interrupted(unit);
      await removeCasesOf(unit, job.id);
      await removeWaits(unit, job.id);
      await dropArtifacts(unit, job.id, calls);
      await unit.record(job.id, { type: "mark", mark: "restarted" });
      await changeJob(unit, job.id, "run", (current) => ({
        ...current,
        status: "in_progress",
        case_count: 0,
        open_questions: 0,
        ...(current.tags && { tags: tagsAfter(current.tags, calls) }),
      }));
    },
    ...goOn("start"),
  };
}

function stopOrphan(
  parts: ClaimParts,
  { id, status, run_count }: StoredJob,
  { end, agent }: { readonly end: RunEnd; readonly agent: HostedAgent | undefined },
): Plan {
  const { reason: stop_reason, message: error } = end;
  if (status === "stopped" && run_count === 0)
    return { store: (unit) => endJob(unit, id, () => ({ to: "cancelled", patch: { stop_reason, error } })) };
  let cancelling: StoredJob | undefined;
  return {
    store: async (unit) => {
      const events = TO_CANCELLING[status as keyof typeof TO_CANCELLING];
      cancelling = await moveJob(unit, id, events, toCancelling(end));
    },
    proceed: () => endCancelled(parts, cancelling!, agent),
  };
}

/** Holds a job that was under way at too many crashes. */
async function hold(
  { jobs, log }: ClaimParts,
  { id }: StoredJob,
  { count, doing, note }: Crash & { readonly note: (unit: Unit) => Promise<unknown> },
): Promise<Plan> {
  const error = `The process ended ${count} times in a row while this job was under way, without progress in between. The last time, it was at ${doing}. The job is held so that other jobs can continue. Fix what ends the process, then retry the job, or stop it.`;
  log.error("a job is held: the process ended each time that it ran", { job_id: id, doing });
  const total_cost = (await RunRecord.of(jobs, id)).cost;
  return {
    store: async (unit) => {
      await note(unit);
      await holdJob(unit, id, { reason: "crash_loop", error, total_cost });
    },
  };
}

/** A job that is held because its parameters could not be read resumes once they can. */
async function resumeIfReadable(parts: ClaimParts, { id }: StoredJob, agent: HostedAgent): Promise<Plan> {
  const job = await parts.jobs.get(id);
  if ((await whyUnreadable(parts, agent, job)) !== undefined) return {};
  return {
    store: (unit) => releaseJob(unit, id, { by: "service" }),
    proceed: async () => parts.turns.queue(await parts.jobs.get(id), "resume"),
  };
}

async function lastEntry({ jobs }: ClaimParts, job: StoredJob): Promise<RunEntry | undefined> {
  return (await jobs.logEnds(job.id, { first: 0, last: 1 })).at(-1)?.entry;
}

/** Since when nothing was done for a job: since the process was last seen, or did something for it. */
function downSince(last: RunEntry | undefined, aliveUntil = ""): string {
  // It was down already when it began to wait for its agent.
  if (last?.type === "mark" && last.mark === "waiting_for_agent") return last.since ?? last.at;
  return laterOf(last?.at ?? "", aliveUntil);
}

/** The clock may have been set back. */
function earlierOf(one: string, other: string): string {
  return one < other ? one : other;
}

/** Ends a job that lost data: it would resume with other data than was stored. A person may retry it. */
function endDamaged(parts: ClaimParts, job: StoredJob, { at, what }: DamagedJob): Promise<Plan> {
  const message = `Data of this job was lost and the store was repaired at ${at}: ${what.join("; ")}. Check what it did before you retry it`;
  parts.log.error("a job that lost data is not resumed", { job_id: job.id, what });
  const note = (unit: Unit) => unit.record(job.id, { type: "mark", mark: "note", message });
  return fail(parts, job, { message, reason: "damaged", note });
}

async function fail(
  { jobs }: ClaimParts,
  { id }: StoredJob,
  {
    message,
    reason,
    note,
  }: { message: string; reason: "interrupted" | "damaged"; note: (unit: Unit) => Promise<unknown> },
): Promise<Plan> {
  const total_cost = (await RunRecord.of(jobs, id)).cost;
  return {
    store: async (unit) => {
      await note(unit);
      await endCases(unit, await caseIdsOf(unit.tx, id), { to: "failed", error: message, name: reason });
      await endJob(unit, id, () => ({
        to: "failed",
        patch: { error: message, stop_reason: reason, total_cost },
      }));
    },
  };
}

/** Tells a job that waits for its turn from one that an operator has set to `stopped`; version 0.1.0 did not mark it. */
async function isQueued({ jobs }: ClaimParts, job: StoredJob): Promise<boolean> {
  if (job.run_count === 0) return true;
  const entries = await jobs.log(job.id);
  const asked = entries.findLast(({ entry }) => entry.type === "mark" || entry.type === "status");
  const before = entries.findLast(({ entry }) => entry.type === "mark");
  const marks = ["retried", "restarted", "limits_raised"];
  if (before?.entry.type !== "mark" || !marks.includes(before.entry.mark)) return false;
  // Only the change to `stopped` itself may follow the mark.
  return asked !== undefined && asked.seq - before.seq <= 1;
}

async function waitForAgent({ jobs, log, claimant }: ClaimParts, job: StoredJob): Promise<Plan> {
  log.warn("a job is waiting for its agent, which is not registered", {
    job_id: job.id,
    agent: job.agent_name,
  });
  const entries = (await jobs.log(job.id)).map(({ entry }) => entry);
  const last = entries.at(-1);
  if (last?.type === "mark" && last.mark === "waiting_for_agent") return { isLeft: true };
  const message = `Agent "${job.agent_name}" is not registered: the job resumes once it is`;
  const since = job.status === "stopped" ? undefined : downSince(last, claimant.aliveUntil);
  const total_cost = RunRecord.read(entries).cost;
  return {
    isLeft: true,
    store: async (unit) => {
      // Another instance has said so.
      if ((await unit.tx.last("Run", job.id)) !== entries.length) return;
      await unit.record(job.id, {
        ...{ type: "mark", mark: "waiting_for_agent", message },
        ...(since !== undefined && { since: earlierOf(since, unit.now) }),
      });
      await changeJob(unit, job.id, null, (current) => ({ ...current, total_cost }));
    },
  };
}
