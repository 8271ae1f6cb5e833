import { ServiceError } from "../base/errors.ts";
import {
  type FileLimits,
  type FileName,
  type FileOrigin,
  type FileUpload,
  type FileValue,
  type JobFile,
  type JobResult,
  jobFileId,
} from "../models/file.ts";
import type { StoredJob } from "../models/job.ts";
import type { Tables } from "../store/store.ts";
import type { Unit } from "./ledger.ts";

/** Milliseconds from the end of the last job that names a content to its removal: backups and downloads finish meanwhile. */
export const FILE_GRACE = 3_600_000;

/** A job, as its files say whose they are. */
export interface FileOwner {
  readonly id: string;
  readonly workspace: string;
  readonly agent: string;
  /** The access that started it, where that sees only a part. */
  readonly access: string | null;
}

export function ownerOf({ id, job_context, agent_name, access }: StoredJob): FileOwner {
  return { id, workspace: job_context.workspace_id, agent: agent_name, access: access ?? null };
}

/** What a job has a file for. */
export interface FileUse {
  readonly job: FileOwner;
  readonly origin: FileOrigin;
  readonly caseId?: string | null | undefined;
  /** What it is to people. */
  readonly artifact?: Pick<FileName, "artifact" | "title">;
  readonly limits: FileLimits;
  /** Since when, ISO 8601. @default now */
  readonly since?: string;
}

/** Has a job name a content, inside the unit that stores what names it. Rejects if the content is no longer there. */
export async function linkFile(unit: Unit, file: FileValue, use: FileUse): Promise<void> {
  const { tx, now } = unit;
  const { name, type, sha256 } = file;
  const { job, origin, caseId = null, artifact, limits, since: created_at = now } = use;
  const { id: jobId, workspace, agent, access } = job;
  const content = await tx.get("FileContent", sha256);
  if (!content) throw isGone(file);
  const given: FileName = { name, type, origin, case_id: caseId, created_at, ...artifact };
  const id = jobFileId(jobId, sha256);
  const known = await tx.get("JobFile", id);
  if (known) {
    const isSame = (one: FileName) => one.name === name && one.type === type && one.case_id === caseId;
    const isNamed = known.names.some(isSame);
    if (isNamed && !artifact) return;
    await tx.change("JobFile", id, (row) => ({
      ...row,
      names: isNamed
        ? row.names.map((one) => (isSame(one) ? { ...one, ...artifact } : one))
        : [...row.names, given],
    }));
    return;
  }
  const { size } = content;
  await tx.insert("JobFile", {
    ...{ id, job_id: jobId, workspace, agent_name: agent, access, sha256, size },
    ...{ names: [given], created_at: now },
  });
  await addTotal(unit, `job.${jobId}`, size, { most: limits.job, option: "jobFilesLimit" });
  await addTotal(unit, workspaceTotal(workspace), size, {
    most: limits.workspace,
    option: "workspaceFilesLimit",
  });
}

/** Whether a content is still an artifact of this name. */
export type KeepsArtifact = (sha256: string, artifact: string) => boolean;

/** Has the files of a job no longer be the artifacts that are not kept; the files themselves stay. */
export async function keepArtifacts(unit: Unit, jobId: string, keeps: KeepsArtifact): Promise<void> {
  for (const { id, sha256, names } of await filesOf(unit, jobId)) {
    const isKept = ({ artifact }: FileName) => artifact === undefined || keeps(sha256, artifact);
    if (names.every(isKept)) continue;
    const kept = names.map((one) => {
      if (isKept(one)) return one;
      const { artifact: _, title: __, ...file } = one;
      return file;
    });
    await unit.tx.change("JobFile", id, (row) => ({ ...row, names: kept }));
  }
}

/** Of the names that a job has for a content, those that its copy has, too. */
export type CopiedNames = (sha256: string, names: readonly FileName[]) => readonly FileName[];

interface FilesCopy extends Pick<FileUse, "job" | "limits"> {
  readonly names: CopiedNames;
  readonly keeps: KeepsArtifact;
  /** Contents of results that are stored apart from their record. */
  readonly results: ReadonlySet<string>;
  /** The copy of a case, by its id; `undefined` where it was not copied. */
  readonly caseOf: (id: string) => string | undefined;
}

/** Has a job name those contents of another one that it needs: it was made from its record. */
export async function copyFiles(
  unit: Unit,
  from: string,
  { names: copied, keeps, results, caseOf, ...use }: FilesCopy,
): Promise<void> {
  for (const { names, sha256, size } of await filesOf(unit, from)) {
    for (const { name, type, origin, case_id, created_at, artifact, title } of copied(sha256, names)) {
      const named = artifact !== undefined &&
        keeps(sha256, artifact) && {
          artifact: { artifact, ...(title !== undefined && { title }) },
        };
      const caseId = case_id === null ? null : caseOf(case_id);
      const given = { ...use, origin, caseId, since: created_at, ...named };
      await linkFile(unit, { name, type, size, sha256 }, given);
    }
  }
  for (const { sha256, size } of await resultsOf(unit, from))
    if (results.has(sha256)) await linkResult(unit, { job_id: use.job.id, sha256, size });
}

/** Has a job keep a result of one of its steps, inside the unit that stores what needs it. */
export async function linkResult(
  { tx, now }: Unit,
  { sha256, size, job_id }: Pick<JobResult, "sha256" | "size" | "job_id">,
): Promise<void> {
  const id = jobFileId(job_id, sha256);
  if (await tx.get("JobResult", id)) return;
  await tx.insert("JobResult", { id, job_id, sha256, size, created_at: now });
}

/** Removes what a job names, inside the unit that removes the job; contents that nothing else names go too. */
export async function unlinkFiles(unit: Unit, jobId: string): Promise<void> {
  const { tx } = unit;
  const files = await filesOf(unit, jobId);
  for (const { id, workspace, sha256, size } of files) {
    await tx.remove("JobFile", id);
    await addTotal(unit, workspaceTotal(workspace), -size);
    await removeUnnamed(unit, sha256);
  }
  if (files.length > 0) await tx.remove("FileTotal", `job.${jobId}`);
  for (const { id, sha256 } of await resultsOf(unit, jobId)) {
    await tx.remove("JobResult", id);
    await removeUnnamed(unit, sha256);
  }
}

/** Inside the unit that has removed an upload: what only it named is to be removed. */
export async function announceRemoval(
  unit: Unit,
  { place, sha256 }: Pick<FileUpload, "place" | "sha256">,
): Promise<void> {
  if (sha256 === null) await unit.tx.insert("FileRemoval", { id: place, due_at: unit.now });
  else await removeUnnamed(unit, sha256);
}

/** Removes a content that neither a job nor an upload names. */
async function removeUnnamed({ tx, now }: Unit, sha256: string): Promise<void> {
  if ((await tx.ids("JobFile", "sha256", sha256)).length > 0) return;
  if ((await tx.ids("JobResult", "sha256", sha256)).length > 0) return;
  if ((await tx.ids("FileUpload", "sha256", sha256)).length > 0) return;
  const content = await tx.get("FileContent", sha256);
  if (!content) return;
  await tx.remove("FileContent", sha256);
  const due_at = new Date(Date.parse(now) + FILE_GRACE).toISOString();
  await tx.insert("FileRemoval", { id: content.place, due_at });
}

const filesOf = (unit: Unit, jobId: string): Promise<JobFile[]> => rowsOf(unit, "JobFile", jobId);
const resultsOf = (unit: Unit, jobId: string): Promise<JobResult[]> => rowsOf(unit, "JobResult", jobId);

/** What a job names. */
async function rowsOf<K extends "JobFile" | "JobResult">(
  { tx }: Unit,
  table: K,
  jobId: string,
): Promise<Tables[K][]> {
  const found: Tables[K][] = [];
  for (const id of await tx.ids(table, "job_id", jobId)) {
    const row = await tx.get(table, id);
    if (row) found.push(row);
  }
  return found;
}

async function addTotal(
  { tx }: Unit,
  id: string,
  bytes: number,
  limit?: { readonly most: number; readonly option: string },
): Promise<void> {
  const before = (await tx.get("FileTotal", id))?.bytes;
  const next = (before ?? 0) + bytes;
  if (limit && next > limit.most) {
    throw new ServiceError(
      "payload_too_large",
      `The files would have more than ${limit.most} bytes together`,
      {
        detail: `Use smaller ones, remove jobs that are no longer needed, or raise the service's option ${limit.option}.`,
      },
    );
  }
  if (before === undefined) await tx.insert("FileTotal", { id, bytes: next });
  else if (next === 0) await tx.remove("FileTotal", id);
  else await tx.change("FileTotal", id, (row) => ({ ...row, bytes: next }));
}

function workspaceTotal(workspace: string): string {
  return `workspace.${workspace}`;
}

/** The error where a job is to name a content that is no longer there. */
export function isGone({ name, sha256 }: FileValue): ServiceError {
  return new ServiceError("not_found", `The content of the file "${name}" (${sha256}) was removed`, {
    detail: "Send it again.",
  });
}
