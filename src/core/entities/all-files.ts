import type { Sight } from "../models/access.ts";
import { type JobFile, type ListedFile, nameOfFile } from "../models/file.ts";
import type { FileGroup } from "../models/file-kind.ts";
import type { StoredJob } from "../models/job.ts";
import type { Condition, ListQuery, Page, Position } from "../store/store.ts";
import type { Files } from "./files.ts";
import { both, NOTHING } from "./in-sight.ts";
import type { Jobs } from "./jobs.ts";

/** What files are listed by. */
export interface FileFilter {
  readonly agent_name?: string | undefined;
  readonly job_id?: string | undefined;
  readonly kind?: FileGroup | undefined;
  readonly origin?: ListedOrigin | undefined;
  /** Milliseconds since 1970. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** A part of a name or title. */
  readonly search?: string | undefined;
}

/** What a job has a file for, where people are to see it before all: `artifact`. */
export type ListedOrigin = "artifact" | ListedFile["origin"];

/** A file with the job that has it. */
export interface FileOfJob {
  readonly file: ListedFile;
  readonly job: StoredJob;
}

/** The order of the list: the newest first. */
export const FILES_SORT = "-created_at";

/** Times that rows are read for one page: the jobs of some may be deleted, and can be restored. */
const ROUNDS = 5;

/**
 * A page of the files of all jobs that a caller sees. Its index finds those of a caller who sees a part, and each one's
 * job is asked for besides: a file whose job the caller does not find is not listed. A page may have fewer than `limit`.
 */
export async function listFiles(
  { files, jobs }: { readonly files: Files; readonly jobs: Jobs },
  sight: Sight | undefined,
  { limit, after, ...filter }: FileFilter & { readonly limit: number; readonly after?: Position | undefined },
): Promise<{ readonly items: readonly FileOfJob[]; readonly next: Position | undefined }> {
  const query = queryOf(sight, filter);
  const items: FileOfJob[] = [];
  let next = after;
  for (let round = 0; round < ROUNDS && items.length < limit; round++) {
    const page = await files.page({ ...query, limit: limit - items.length, after: next });
    items.push(...(await ofSeenJobs(jobs, page)));
    next = page.next;
    if (next === undefined) break;
  }
  return { items, next };
}

async function ofSeenJobs(jobs: Jobs, { items }: Page<JobFile>): Promise<FileOfJob[]> {
  if (items.length === 0) return [];
  const ids = [...new Set(items.map(({ job_id }) => job_id))];
  const found = await jobs.list({ where: { id: ids }, limit: ids.length, uncounted: true });
  const jobOf = new Map(found.items.map((job) => [job.id, job]));
  return items.flatMap((row) => {
    const job = jobOf.get(row.job_id);
    const { sha256, size, created_at } = row;
    return job ? [{ job, file: { ...nameOfFile(row), size, sha256, created_at } }] : [];
  });
}

function queryOf(
  sight: Sight | undefined,
  { agent_name, job_id, kind, origin, since, until, search }: FileFilter,
): ListQuery & { readonly sort: string } {
  const where: Record<string, Condition | undefined> = { agent_name, job_id, kind, origin };
  if (since !== undefined || until !== undefined)
    where.created_at = {
      ...(since !== undefined && { gte: since }),
      ...(until !== undefined && { lt: until }),
    };
  if (sight?.agents) where.agent_name = both(agent_name, sight.agents);
  if (sight?.workspace !== undefined) where.workspace = sight.workspace;
  if (sight?.startedBy !== undefined) where.access = sight.startedBy;
  if (sight?.job !== undefined) where.job_id = both(job_id, [sight.job]);
  if (sight?.askedOf !== undefined) where.job_id = NOTHING;
  return { where, search, sort: FILES_SORT, uncounted: true };
}
