import { nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { reopenCase } from "../../entities/change-case.ts";
import { changeJob, released, releaseJob } from "../../entities/change-job.ts";
import { findKeptRequest, isRepeated } from "../../entities/keyed-requests.ts";
import { removeWaits } from "../../entities/received-events.ts";
import type { StoredJob } from "../../models/job.ts";
import { holdOf, isIn } from "../../models/job-state.ts";
import { dropArtifacts, endsOf, tagsAfter } from "../replay/call-additions.ts";
import type { Rehearsed } from "../replay/rehearsal.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import {
  type Asked,
  asJob,
  note,
  type RequestParts,
  refusePulled,
  refuseWhenClosing,
} from "../runner-parts.ts";
import { changeWithRun } from "./job-change.ts";
import { takeFrom } from "./steer.ts";

type Cut = (readonly [first: number, last: number])[];

/** Resumes a held job with the current code, without the recorded calls that it does not make. */
export async function continueJob(
  parts: RequestParts,
  jobId: string,
  { actor, once }: Asked,
): Promise<StoredJob> {
  refuseWhenClosing(parts);
  const { jobs, tries, turns } = parts;
  const by = actor && nameOf(actor);
  const seen = await jobs.get(jobId);
  if (once && (await findKeptRequest(parts.store, jobId, once))) return seen;
  assertHeld(seen);
  const { notMade, ...rehearsed } = await tries.rehearse(seen);
  const problem = whyUnknown(rehearsed);
  // Calls that it may still make would be forgotten, and made again.
  if (problem) {
    const { what, detail } = problem;
    throw new ServiceError("invalid_transition", `Job "${jobId}" cannot continue: ${what}`, { detail });
  }
  const cut = toStretches(notMade);
  const next = await changeWithRun(parts, jobId, async (unit, { job, record }) => {
    if (await isRepeated(unit, jobId, once)) return undefined;
    assertHeld(job);
    const after = { calls_left_out: notMade.length };
    await note(parts, unit, actor, { action: "job.continue", target: asJob(jobId), before: job.held, after });
    const ended = endsOf(record.ended);
    record.cutOff(cut);
    const kept = new Set(endsOf(record.ended));
    const calls = { gone: ended.filter((one) => !kept.has(one)), kept: [...kept] };
    await dropArtifacts(unit, jobId, calls);
    for (const id of record.openCases()) await reopenCase(unit, id, by);
    // Those of calls that are not made again would take events from the others.
    await removeWaits(unit, jobId);
    const tags = tagsAfter(job.tags, calls);
    if (tags && tags.length < job.tags!.length)
      await changeJob(unit, jobId, null, (one) => ({ ...one, tags }));
    return releaseJob(unit, jobId, { by: by ?? "api", cut });
  });
  if (!next) return jobs.get(jobId);
  turns.queue(next, "resume");
  return next;
}

/** Why it is not known which of its recorded calls a handler makes. */
function whyUnknown({
  end,
  failed,
}: Pick<Rehearsed, "end" | "failed">): { readonly what: string; readonly detail: string } | undefined {
  if (failed !== undefined) {
    return {
      what: `its handler fails before it has made its recorded calls: ${failed}`,
      detail:
        "Nothing was changed. Correct the cause: the job resumes by itself where its record fits the code, and can be continued otherwise.",
    };
  }
  if (end === "unsure") {
    return {
      what: "its handler did not make its recorded calls in time",
      detail:
        "Nothing was changed. It waits for something that is not recorded, or the service is busy. Move what it waits for into a step, or try again.",
    };
  }
  return end?.reason === "crashed"
    ? { what: "its handler ends its process", detail: end.message }
    : undefined;
}

/** Gives an open job another version of its agent, where its record fits that. */
export async function moveJobTo(
  parts: RequestParts,
  jobId: string,
  version: string,
  { actor, once }: Asked,
): Promise<StoredJob> {
  refuseWhenClosing(parts);
  const { jobs, agents, tries, turns } = parts;
  const by = actor && nameOf(actor);
  const seen = await jobs.get(jobId);
  if (once && (await findKeptRequest(parts.store, jobId, once))) return seen;
  assertOpen(seen);
  const versions = agents.versions(seen.agent_name);
  const agent = versions.find(({ definition }) => definition.version === version);
  if (!agent) {
    const here = versions.map(({ definition }) => definition.version).join(", ");
    throw new ServiceError("invalid_parameters", `There is no version ${version} of ${seen.agent_name}`, {
      detail: here === "" ? "The agent is not registered." : `Available versions: ${here}.`,
    });
  }
  const { end } = await tries.rehearse(seen, agent);
  if (end !== undefined && end !== "unsure") throw doesNotFit(jobId, version, end);
  const moved: RunEnd = { to: "cancelled", reason: "overridden", message: `Moved to version ${version}` };
  const next = await takeFrom(parts, jobId, {
    end: moved,
    work: async (unit, { job, run }) => {
      if (await isRepeated(unit, jobId, once)) return { value: undefined, take: false };
      assertOpen(job);
      const change = { before: job.agent_version, after: version };
      await note(parts, unit, actor, { action: "job.move", target: asJob(jobId), ...change });
      const { message } = moved;
      if (run) await unit.record(jobId, { type: "mark", mark: "interrupted", message, by: by ?? "api" });
      await unit.record(jobId, { type: "mark", mark: "moved", message, by: by ?? "api" });
      const toVersion = (one: StoredJob) => ({ ...released(one), agent_version: version });
      const value = await changeJob(unit, jobId, "release", toVersion, by);
      return { value, take: true };
    },
  });
  if (!next) return jobs.get(jobId);
  if (!isIn(next, "parked")) turns.queue(next, next.status === "stopped" ? "start" : "resume");
  return next;
}

function assertHeld(job: StoredJob): void {
  refusePulled(job);
  if (holdOf(job) === "code_changed") return;
  throw new ServiceError("invalid_transition", `Job "${job.id}" is ${job.status}, and is not held`, {
    detail: "Only a job that is held because its record does not fit the code can be continued.",
  });
}

function assertOpen(job: StoredJob): void {
  refusePulled(job);
  const { id, status } = job;
  if (!isIn(job, "ended", "stopping")) return;
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
