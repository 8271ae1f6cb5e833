import type { AgentDefinition } from "../agents/define-agent.ts";
import { toMilliseconds } from "../base/duration.ts";
import type { StoredJob } from "../models/job.ts";
import { CodeChecks } from "./check/code-checks.ts";
import { HeldTries } from "./check/held-tries.ts";
import { Alone } from "./cluster/alone.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { LoneMember } from "./cluster/lone-member.ts";
import type { Member } from "./cluster/member.ts";
import { Membership } from "./cluster/membership.ts";
import { SharedCluster } from "./cluster/shared-cluster.ts";
import { SharedMember } from "./cluster/shared-member.ts";
import { Suspects } from "./cluster/suspects.ts";
import { Pauses } from "./operate/pauses.ts";
import { stopChild } from "./operate/steer.ts";
import { ActiveRuns } from "./queue/active-runs.ts";
import { toQueuedJob } from "./queue/queued-job.ts";
import { type AgentLimits, Scheduler } from "./queue/scheduler.ts";
import { Turns } from "./queue/turns.ts";
import { Waker } from "./queue/waker.ts";
import type { RequestParts, RunnerParts } from "./runner-parts.ts";

/** Makes what runs jobs, and the place of this instance among those of its store. */
export function openParts(given: RunnerParts): { readonly parts: RequestParts; readonly member: Member } {
  const scheduler = openScheduler(given);
  if (!given.store.isShared) {
    const parts = assemble(given, scheduler, new Alone({ ...given, scheduler }));
    return { parts, member: new LoneMember(parts) };
  }
  const membership = new Membership({
    ...{ store: given.store, log: given.log, times: given.leaseTimes },
    describe: () => ({
      agents: given.agents
        .list()
        .flatMap(({ slug }) => given.agents.versions(slug))
        .map(({ slug, definition }) => `${slug}@${definition.version}`),
      keys: given.parameters.keyNames(),
      running: scheduler.running,
      places: given.maxConcurrentJobs,
    }),
  });
  const isRunning = (jobId: string) => parts.runs.isRunning(jobId);
  const cluster = new SharedCluster({ ...given, scheduler, membership }, isRunning);
  const parts = { ...assemble(given, scheduler, cluster), cluster };
  return { parts, member: new SharedMember(parts, membership) };
}

function openScheduler(given: RunnerParts) {
  const { agents, workspaces, maxConcurrentJobs, store, isPaused, clock, startTimer } = given;
  return new Scheduler({
    slots: maxConcurrentJobs,
    isPaused,
    agents: new Map(
      agents.list().map(({ slug, definition }) => [slug, limitsOf(definition, maxConcurrentJobs)]),
    ),
    clock,
    startTimer,
    isShared: store.isShared,
    slotsIn: workspaces?.haveSlots ? (name) => workspaces.of(name).maxConcurrentJobs : undefined,
  });
}

/** What an agent declares for its jobs. */
function limitsOf({ maxConcurrentJobs, concurrency, rateLimit }: AgentDefinition, most: number): AgentLimits {
  return {
    slots: maxConcurrentJobs ?? most,
    key: concurrency && { limit: concurrency.limit, isKept: concurrency.scope === "job" },
    rate: rateLimit && {
      limit: rateLimit.limit,
      period: toMilliseconds(rateLimit.period),
      isKeyed: rateLimit.key !== undefined,
    },
  };
}

function assemble(given: RunnerParts, scheduler: Scheduler, cluster: Cluster): RequestParts {
  const { agents, hooks, underWay } = given;
  const ended = ({ job }: { job: StoredJob }) => {
    // Only a concurrency key may be kept until then.
    if (job.concurrency_key != null) scheduler.ended(toQueuedJob(job));
    cluster.limits.ended(job);
  };
  hooks.on("job:finished", ended);
  hooks.on("job:deleted", ended);
  const runs = new ActiveRuns({
    ...{ ...given, scheduler, cluster },
    queue: (job, kind) => turns.queue(job, kind),
    stop: (parent, id, order) => stopChild(parts, parent, id, order),
  });
  const turns = new Turns({ ...given, scheduler, cluster, runs });
  const suspects = new Suspects({ ...given, scheduler, cluster, turns });
  const tries = new HeldTries({ ...given, scheduler, turns });
  const pauses = new Pauses({ ...given, scheduler, cluster });
  const waker = new Waker({
    ...given,
    isClosed: () => scheduler.isClosed,
    resume: (job, wokenAt) => turns.queueSuspended(job, wokenAt),
    onSuspended: (agent) => codeChecks.suspended(agent),
  });
  const codeChecks = new CodeChecks({ ...given, scheduler, tries, waker });
  const isolated = new Set(
    agents.list().flatMap(({ slug, definition }) => (definition.isolate ? [slug] : [])),
  );
  scheduler.watch = {
    // What an isolated agent does cannot end this process.
    began: ({ jobId, agent }) => isolated.has(agent) || underWay?.began(jobId),
    used: () => underWay?.flush(),
    rested: ({ jobId, agent }, isOver) => {
      if (isOver) underWay?.left(jobId);
      else if (!isolated.has(agent)) underWay?.rested(jobId);
      suspects.rested(jobId);
    },
  };
  const made = { scheduler, cluster, runs, turns, suspects, tries, codeChecks, pauses, waker };
  const parts: RequestParts = { ...given, ...made };
  return parts;
}
