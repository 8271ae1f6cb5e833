import { type Actor, nameOf } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { reopenCase } from "../entities/cases.ts";
import { changeJob, released, releaseJob } from "../entities/jobs.ts";
import { removeWaits } from "../entities/received-events.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import { changeWithRun } from "./job-change.ts";
import type { RunEnd } from "./run/run-errors.ts";
import { asJob, note, type RequestParts, refusePulled, refuseWhenClosing } from "./runner-parts.ts";
import { takeFrom } from "./steer.ts";

type Cut = (readonly [first: number, last: number])[];

/** Resumes a held job with the current code, without the recorded calls that it does not make. */
export async function continueJob(parts: RequestParts, jobId: string, actor?: Actor): Promise<StoredJob> {
  refuseWhenClosing(parts);
  const { jobs, runs } = parts;
  const by = actor && nameOf(actor);
  const seen = await jobs.get(jobId);
  assertHeld(seen);
  const { notMade, end } = await runs.rehearse(seen);
  // Otherwise it would make all of its calls again.
  if (end !== undefined && end !== "unsure" && end.reason === "crashed")
    throw new ServiceError(
      "invalid_transition",
      `Job "${jobId}" cannot continue: its handler ends its process`,
      {
        detail: end.message,
      },
    );
  const cut = toStretches(notMade);
  const next = await changeWithRun(parts, jobId, async (unit, { job, record }) => {
    assertHeld(job);
    const after = { calls_left_out: notMade.length };
    await note(parts, unit, actor, { action: "job.continue", target: asJob(jobId), before: job.held, after });
    record.cutOff(cut);
    for (const id of record.openCases()) await reopenCase(unit, id, by);
    // Those of calls that are not made again would take events from the others.
    await removeWaits(unit, jobId);
    return releaseJob(unit, jobId, { by: by ?? "api", cut });
  });
  runs.queue(next, "resume");
  return next;
}

/** Gives an open job another version of its agent, where its record fits that. */
export async function moveJobTo(
  parts: RequestParts,
  jobId: string,
  version: string,
  actor?: Actor,
): Promise<StoredJob> {
  refuseWhenClosing(parts);
  const { jobs, runs, agents } = parts;
  const by = actor && nameOf(actor);
  const seen = await jobs.get(jobId);
  assertOpen(seen);
  const versions = agents.versions(seen.agent_name);
  const agent = versions.find(({ definition }) => definition.version === version);
  if (!agent) {
    const here = versions.map(({ definition }) => definition.version).join(", ");
    throw new ServiceError("invalid_parameters", `There is no version ${version} of ${seen.agent_name}`, {
      detail: here === "" ? "The agent is not registered." : `Available versions: ${here}.`,
    });
  }
  const { end } = await runs.rehearse(seen, agent);
  if (end !== undefined && end !== "unsure") throw doesNotFit(jobId, version, end);
  const moved: RunEnd = { to: "cancelled", reason: "overridden", message: `Moved to version ${version}` };
  const next = await takeFrom(parts, jobId, {
    end: moved,
    work: async (unit, { job, run }) => {
      assertOpen(job);
      const change = { before: job.agent_version, after: version };
      await note(parts, unit, actor, { action: "job.move", target: asJob(jobId), ...change });
      const { message } = moved;
      if (run) await unit.record(jobId, { type: "mark", mark: "interrupted", message, by: by ?? "api" });
      await unit.record(jobId, { type: "mark", mark: "moved", message, by: by ?? "api" });
      const value = await changeJob(unit, jobId, (one) => ({ ...released(one), agent_version: version }), by);
      return { value, take: true };
    },
  });
  if (!next.parked) runs.queue(next, next.status === "stopped" ? "start" : "resume");
  return next;
}

function assertHeld(job: StoredJob): void {
  refusePulled(job);
  if (job.held) return;
  throw new ServiceError("invalid_transition", `Job "${job.id}" is ${job.status}, and is not held`, {
    detail: "Only a job that is held because its record does not fit the code can be continued.",
  });
}

function assertOpen(job: StoredJob): void {
  refusePulled(job);
  const { id, status } = job;
  if (!isTerminal(status) && status !== "cancelling") return;
  throw new ServiceError("invalid_transition", `Job "${id}" is ${status}: it cannot be moved`, {
    detail: "Only a job that has not ended can be moved to another version.",
  });
}

function doesNotFit(jobId: string, version: string, { message }: RunEnd): ServiceError {
  return new ServiceError("invalid_transition", `Job "${jobId}" does not fit version ${version}`, {
    detail: message,
  });
}

/** Line numbers as stretches of those that follow each other. */
function toStretches(lines: readonly number[]): Cut {
  const cut: [number, number][] = [];
  for (const line of lines.toSorted((a, b) => a - b)) {
    const last = cut.at(-1);
    if (last && line <= last[1] + 1) last[1] = Math.max(last[1], line);
    else cut.push([line, line]);
  }
  return cut;
}
