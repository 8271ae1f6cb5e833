import { randomUUID } from "node:crypto";
import * as v from "valibot";
import { fieldsOf } from "../agents/fields.ts";
import type { Actor } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { wakeJob } from "../entities/change-job.ts";
import type { Unit } from "../entities/ledger.ts";
import { receiveEvent } from "../entities/received-events.ts";
import { AgentMethodFieldSchema } from "../models/agent-method-field.ts";
import type { StoredJob } from "../models/job.ts";
import { stateOf } from "../models/job-state.ts";
import type { EventWait } from "../models/received-event.ts";
import { listCalls } from "./fork/call-names.ts";
import { openParts } from "./open-parts.ts";
import { resumeJob, retryJob } from "./operate/again.ts";
import { deleteCase, restoreDeletedCase } from "./operate/delete-case.ts";
import { deleteJob, restoreDeleted } from "./operate/delete-job.ts";
import { exportJob } from "./operate/export-job.ts";
import { continueJob, moveJobTo } from "./operate/held-jobs.ts";
import { describeJob } from "./operate/job-response.ts";
import { callBeside, findMethod } from "./operate/method-calls.ts";
import { overrideCaseStatus, overrideStatus, stopJob, stopWithParents } from "./operate/steer.ts";
import { answerQuestion } from "./questions/answer.ts";
import { assignQuestion } from "./questions/assign.ts";
import { receiveMessage } from "./questions/receive-message.ts";
import { checkClaimed, claimFiles, whileClaimed } from "./queue/claim-files.ts";
import { toQueuedJob } from "./queue/queued-job.ts";
import { Starts } from "./queue/start.ts";
import { RunRecord } from "./replay/run-record.ts";
import type { Runner } from "./runner.ts";
import { type RequestParts, type RunnerParts, refuseWhenClosing } from "./runner-parts.ts";
import { ActiveSchedules } from "./schedules/active-schedules.ts";

/** What a message to a thread has besides its text. */
const MESSAGE_FIELDS = [
  v.parse(AgentMethodFieldSchema, { name: "files", type: "array", field_type: "FileField" }),
];

/** Statuses of jobs that may be running. */
const RUNNING = ["in_progress", "cancelling"] as const;

/** Makes the part that runs jobs. */
export function createRunner(given: RunnerParts): Runner {
  const { parts, member } = openParts(given);
  const { agents, cluster, jobs, log, pauses, runs, scheduler, settings, waker } = parts;
  const starts = new Starts(parts);
  const schedules = new ActiveSchedules(parts, starts);
  stopWithParents(parts);
  const setPaused = async (slug: string, isPaused: boolean, actor: Actor): Promise<void> => {
    await settings.setPaused(agents.get(slug).slug, isPaused, actor);
    await pauses.changed();
  };
  return {
    schedules,
    start: (slug, request) => starts.start(slug, request),
    ended: (jobId, milliseconds) => runs.ends.wait(jobId, milliseconds, runs.isRunning(jobId)),
    stop: (jobId, by) => stopJob(parts, jobId, by),

    get pausedAgents() {
      return agents.list().flatMap(({ slug }) => (scheduler.isAgentPaused(slug) ? [slug] : []));
    },
    pauseAgent: (slug, by) => setPaused(slug, true, by),
    resumeAgent: (slug, by) => setPaused(slug, false, by),
    get drainedUntil() {
      return pauses.drainedUntil;
    },
    async drain(milliseconds, by) {
      const until = await settings.drain(milliseconds, by);
      await pauses.changed();
      const where = { status: RUNNING, wake_at: null, stop_reason: null };
      const { total } = await jobs.list({ where, limit: 1 });
      return { until: until ?? null, running: total };
    },
    get isPaused() {
      return scheduler.isPaused;
    },
    unpause() {
      if (!scheduler.isPaused) return;
      log.info("the service is no longer paused: jobs run", { queued: scheduler.queued });
      scheduler.resume();
    },

    assign: (caseId, to, by) => assignQuestion(parts, caseId, to, by),
    answer: (jobId, caseId, request, by) => answerQuestion(parts, { jobId, caseId, request }, by),
    async receive(name, { id, data }) {
      refuseWhenClosing(parts);
      const input = { name, event_id: id ?? randomUUID(), data: { ...data } };
      return (await giveEvent(parts, (unit) => receiveEvent(unit, input))).event;
    },
    async say(jobId, message) {
      refuseWhenClosing(parts);
      const { files = [], filesOf = [], uploader: owner } = message;
      if (files.length === 0) {
        await giveEvent(parts, (unit) => receiveMessage(unit, jobId, message));
        return;
      }
      const claimant = { owner, brings: "stored", jobs: [jobId, ...filesOf] } as const;
      const claimed = await claimFiles(parts.files, MESSAGE_FIELDS, { files }, claimant);
      const link = { files: parts.files, claimed };
      await whileClaimed(parts.files, claimed, () =>
        giveEvent(parts, (unit) => receiveMessage(unit, jobId, message, link)),
      );
    },

    resume: (jobId, instructions, actor, once) => resumeJob(parts, jobId, instructions, { actor, once }),
    retry: (jobId, from, actor, once) => retryJob(parts, jobId, from, { actor, once }),
    continue: (jobId, actor, once) => continueJob(parts, jobId, { actor, once }),
    move: (jobId, version, actor, once) => moveJobTo(parts, jobId, version, { actor, once }),
    override: (jobId, status, actor, once) => overrideStatus(parts, jobId, status, { actor, once }),
    overrideCase: (caseId, status, actor, once) => overrideCaseStatus(parts, caseId, status, { actor, once }),
    async calls(jobId) {
      await jobs.get(jobId);
      return listCalls(await RunRecord.of(jobs, jobId));
    },
    export: (jobId, by) => exportJob(parts, jobId, by),
    fork: (jobId, request, by) => starts.fork(jobId, request, by),
    remove: (jobId, by, options) => deleteJob(parts, jobId, by, options),
    restore: (jobId, by) => restoreDeleted(parts, jobId, by),
    removeCase: (caseId, by, options) => deleteCase(parts, caseId, by, options),
    restoreCase: (caseId, by) => restoreDeletedCase(parts, caseId, by),

    async call(slug, call) {
      if (scheduler.isPaused)
        throw new ServiceError("unavailable", "The service is paused: no agent code runs", {
          detail: "Resume it with: svc resume",
        });
      return callBeside(parts, agents.get(slug), call);
    },
    describe: (job) => describeJob(job, whyItWaits(parts, job)),
    async checkFields(slug, method, fields, owner) {
      const asked = fieldsOf(findMethod(agents.get(slug), method));
      const checked = await checkClaimed(parts.files, asked, fields, { owner });
      return checked.ok ? {} : checked.problems;
    },
    position: (jobId) => cluster.position(jobId),
    runningSteps: (jobId) => runs.find(jobId)?.activity?.runningSteps() ?? [],
    load: () => ({ running: scheduler.running, queued: scheduler.queued }),

    get instance() {
      return cluster.owner ?? undefined;
    },
    get probe() {
      return member.probe;
    },
    async reconcile(aliveUntil) {
      await pauses.read();
      await cluster.limits.recall();
      await member.start(aliveUntil);
    },
    async close(grace) {
      schedules.close();
      pauses.close();
      waker.close();
      // It is alive until its jobs are given up.
      member.close();
      await runs.close(grace);
      await member.leave();
    },
  };
}

/** Stores an event, and gives it to the calls that wait for it. */
async function giveEvent<Received extends { readonly waits: readonly EventWait[] }>(
  { ledger, runs, cluster }: RequestParts,
  store: (unit: Unit) => Promise<Received>,
): Promise<Received> {
  const received = await ledger.write(async (unit) => {
    const received = await store(unit);
    for (const { job_id } of received.waits) await wakeJob(unit, job_id);
    return received;
  });
  runs.received(received.waits);
  cluster.hint(received.waits.map(({ job_id }) => job_id));
  return received;
}

/** Why a job has not started yet, for people. */
function whyItWaits({ cluster, pauses, scheduler }: RequestParts, job: StoredJob): string | undefined {
  if (cluster.lacksAgent(job)) return "The job waits for its agent, which no living instance hosts";
  if (cluster.lacksVersion(job))
    return `The job waits for version ${job.agent_version} of its agent, or a newer one: the living instances host older ones. To have one of those run it, move the job to its version`;
  if (stateOf(job) !== "queued") return undefined;
  if (!job.run_count && pauses.drainedUntil !== undefined)
    return `The job waits for a deployment: jobs start again at ${pauses.drainedUntil}, or before`;
  if (!job.run_count && scheduler.isAgentPaused(job.agent_name))
    return "The job waits until its agent is resumed";
  const ahead = scheduler.aheadAtKey(job.id);
  if (ahead !== undefined)
    return `The job waits for its concurrency key, which other jobs have: ${ahead} before it`;
  const next = scheduler.nextStart(toQueuedJob(job));
  if (next === undefined) return undefined;
  return `The job waits for the rate limit of its agent: the next one starts at ${new Date(next).toISOString()}`;
}
