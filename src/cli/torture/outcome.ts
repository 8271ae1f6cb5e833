import { setTimeout as delay } from "node:timers/promises";
import type { Job } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { listCases } from "../job/list-cases.ts";
import { type ServiceClient, UnreachableError } from "../job/service-client.ts";
import type { Outcome, TrialJob } from "./trial.ts";

/** Updates of each case that are compared. */
const NEWEST = 1000;

/** Seconds that the jobs get to finish after the last kill. */
export const LAST_WAIT = 120;

/** Reads a job that has ended. */
export async function readOutcome(client: ServiceClient, jobId: string): Promise<Outcome> {
  let job: Job | undefined;
  const log = new Map<string, RunEntry>();
  for await (const { event, id, data } of client.events(`/jobs/${jobId}/stream`)) {
    if (event === "snapshot") job = JSON.parse(data) as Job;
    if (id !== undefined) log.set(id, JSON.parse(data) as RunEntry);
    if (event === "end") break;
  }
  return { job: job!, cases: await listCases(client, jobId, NEWEST), log };
}

/** Answers a job's questions until it has ended. */
export async function finish(client: ServiceClient, job: TrialJob, seconds: number): Promise<boolean> {
  for (const until = Date.now() + seconds * 1000; Date.now() < until; await delay(50)) {
    const { status } = await client.get<{ status: string }>(`/jobs/${job.id}`);
    if (["completed", "failed", "cancelled"].includes(status)) return true;
    if (status !== "awaiting") continue;
    const answered = await answerAll(client, job);
    // Several kills in a row may have met it without progress: then it is held.
    if (answered === 0) await client.post(`/jobs/${job.id}/retry`, { from: "last_step" }).catch(() => {});
  }
  return false;
}

/** Answers the open questions of a job, and remembers each accepted answer; returns their number. */
export async function answerAll(client: ServiceClient, job: TrialJob): Promise<number> {
  let count = 0;
  for (const item of await listCases(client, job.id, 0)) {
    if (item.status !== "awaiting" || !item.question) continue;
    const answer = job.answerTo(item.question);
    try {
      await client.post(`/jobs/${job.id}/cases/${item.id}/update`, { answer });
    } catch (error) {
      if (error instanceof UnreachableError) throw error;
      // Refused: it expired in the meantime.
      continue;
    }
    job.answered(item, answer);
    count++;
  }
  return count;
}

/** What must be equal for two jobs with the same input, by path; ids of the job are removed. */
export function flatten({ job, cases }: Outcome): Map<string, string> {
  const places = new Map<string, string>();
  const add = (path: string, value: unknown): void => {
    if (value === null || typeof value !== "object") {
      places.set(path, JSON.stringify(value ?? null).replaceAll(job.id, "(job)"));
      return;
    }
    for (const [key, item] of Object.entries(value)) add(`${path}.${key.replaceAll(job.id, "(job)")}`, item);
  };
  const { status, result, error, stop_reason, total_cost } = job;
  add("job", { status, result, error, stop_reason, total_cost });
  for (const item of cases) {
    const { name, description, final_delivery, updates } = item;
    const told = updates.map(({ created_at: _time, ...update }) => update);
    add(`case ${item.ref}`, {
      name,
      description,
      status: item.status,
      final_delivery,
      updates: told,
      total: item.total_cost,
    });
  }
  return places;
}
