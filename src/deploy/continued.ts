import type { Deployment } from "./deployment.ts";
import { inform, warn } from "./events.ts";
import { isLasting, type JobPlace, storeOf } from "./job-store.ts";
import { askLive } from "./live-work.ts";
import type { OpenWork } from "./open-work.ts";
import type { Release } from "./platform.ts";
import { leftStore } from "./store-change.ts";

/** What became of the jobs that were open before a release. */
export interface ContinuedJobs {
  /** Those that are open, or have ended since. */
  readonly continued: number;
  /** Jobs of `continued` that have ended. */
  readonly ended: number;
  /** Ids of those that the new code does not fit, or that ended each instance that ran them: a person decides. */
  readonly held: readonly string[];
}

/** The open jobs of a service whose jobs are in a database or a bucket: the next release continues them. */
export async function jobsBefore(
  deployment: Deployment,
  live: Release | undefined,
  next: JobPlace,
): Promise<OpenWork | undefined> {
  if (live === undefined || !isLasting(storeOf(live)) || leftStore(live, next)) return undefined;
  return askLive(deployment, live);
}

/** Compares them with those that the new release has; undefined where either could not be asked, which is reported. */
export async function continuedJobs(
  deployment: Deployment,
  before: OpenWork | undefined,
  release: Release,
): Promise<ContinuedJobs | undefined> {
  if (before === undefined || !isLasting(storeOf(release))) return undefined;
  const { emit } = deployment;
  const after = before.known ? await askLive(deployment, release) : before;
  if (!before.known || !after.known) {
    const { reason } = after as { reason: string };
    inform(emit, `Open jobs stay in the ${storeOf(release)}; they were not counted: ${reason}`);
    return undefined;
  }
  const now = new Map(after.jobs.map((job) => [job.id, job]));
  const mine = before.jobs.filter(({ held }) => !held);
  const held = mine.filter(({ id }) => now.get(id)?.held).map(({ id }) => id);
  if (held.length > 0)
    warn(
      emit,
      `Held since the release: ${held.slice(0, 20).join(", ")}`,
      "svc job show <id> says why; Retry in /admin, or svc job retry, releases one",
    );
  const isWhole = after.total === after.jobs.length;
  const ended = isWhole ? mine.filter(({ id }) => !now.has(id)).length : 0;
  return { continued: mine.length - held.length, ended, held };
}

/** As text: "7 jobs continued, 2 of them have ended". */
export function describeContinued({ continued, ended }: ContinuedJobs): string {
  const jobs = `${continued} ${continued === 1 ? "job" : "jobs"} continued`;
  return ended === 0 ? jobs : `${jobs}, ${ended} of them ${ended === 1 ? "has" : "have"} ended`;
}
