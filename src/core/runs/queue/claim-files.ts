import type { CheckedFields, Fields } from "../../agents/fields.ts";
import { isServiceError, ServiceError } from "../../base/errors.ts";
import { type Files, fileOf, uploadNotFound } from "../../entities/files.ts";
import { linkFile } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { AgentMethodField } from "../../models/agent-method-field.ts";
import { type FileOrigin, type FileValue, isFileValue, jobFileId } from "../../models/file.ts";

/** Files that a request names: its fields with their values, and what the job is to name. */
export interface Claimed {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly files: readonly FileValue[];
}

/** Who asks, and the jobs whose files may be named as they are. */
export interface Claimant {
  /** The access that sees only a part; `null` for those who see everything. */
  readonly owner?: string | null | undefined;
  readonly jobs?: readonly string[];
}

/**
 * Replaces uploads in the fields of a request, `{ upload }`, by the files that they are. A file that is written out is only
 * accepted where one of the claimant's jobs has it: knowing a hash gives nobody a right to its content.
 */
export async function claimFiles(
  files: Files | undefined,
  list: readonly AgentMethodField[],
  fields: Readonly<Record<string, unknown>>,
  claimant: Claimant,
): Promise<Claimed> {
  const found: FileValue[] = [];
  const next: Record<string, unknown> = { ...fields };
  const claim = async (given: unknown, name: string): Promise<unknown> => {
    if (given === null || given === undefined || given === "") return null;
    if (!files) throw notHere(name);
    const file = await find(files, given, { claimant, name });
    found.push(file);
    return file;
  };
  for (const { name, field_type } of list) {
    if (field_type !== "FileField" || !(name in fields)) continue;
    const given = fields[name];
    next[name] = Array.isArray(given)
      ? await Promise.all(given.map((one) => claim(one, name)))
      : await claim(given, name);
    // It is as if it were not sent.
    if (next[name] === null) delete next[name];
  }
  return { fields: next, files: found };
}

/** Checks values of fields before they are sent: with its files in place of uploads, as they are checked then. */
export async function checkClaimed(
  files: Files | undefined,
  fields: Fields,
  given: Readonly<Record<string, unknown>>,
  claimant: Claimant = {},
): Promise<CheckedFields> {
  let values = given;
  const problems: Record<string, string> = {};
  for (const field of fields.list) {
    if (field.field_type !== "FileField") continue;
    try {
      values = (await claimFiles(files, [field], values, claimant)).fields;
    } catch (error) {
      if (!isServiceError(error) || error.status >= 500) throw error;
      problems[field.name] = [error.message, error.detail].filter(Boolean).join(". ");
    }
  }
  const checked = await fields.check(values);
  if (Object.keys(problems).length === 0) return checked;
  return { ok: false, problems: { ...(!checked.ok && checked.problems), ...problems } };
}

/** Whether a list of fields has one for files. */
export function hasFiles(list: readonly AgentMethodField[]): boolean {
  return list.some(({ field_type }) => field_type === "FileField");
}

/** Has a job name the files that its start, or an answer, has claimed, inside the unit that stores it. */
export async function linkClaimed(
  unit: Unit,
  files: Files | undefined,
  claimed: readonly FileValue[],
  job: {
    readonly id: string;
    readonly workspace: string;
    readonly origin: FileOrigin;
    readonly caseId?: string;
  },
): Promise<void> {
  for (const file of claimed) {
    const { id: jobId, ...use } = job;
    await linkFile(unit, file, { jobId, ...use, limits: files!.limits });
  }
}

async function find(
  files: Files,
  given: unknown,
  { claimant: { owner = null, jobs = [] }, name }: { claimant: Claimant; name: string },
): Promise<FileValue> {
  if (typeof given === "object" && given !== null && "upload" in given && typeof given.upload === "string") {
    const upload = await files.completed(given.upload);
    // Somebody else's does not exist.
    if (owner !== null && upload.access !== owner) throw uploadNotFound(given.upload);
    return fileOf(upload);
  }
  if (isFileValue(given)) {
    for (const job of jobs) if (await files.has(jobFileId(job, given.sha256))) return given;
  }
  throw new ServiceError("invalid_parameters", `The field "${name}" needs a file`, {
    detail: 'Upload it with POST /files, and send {"upload": "<id>"} in the field.',
  });
}

function notHere(name: string): ServiceError {
  return new ServiceError(
    "invalid_parameters",
    `The field "${name}" needs a file, and files are not kept here`,
  );
}
