import * as v from "valibot";
import type { CheckedFields, Fields } from "../../agents/fields.ts";
import { toParts } from "../../agents/file-content.ts";
import { isServiceError, ServiceError, textOf } from "../../base/errors.ts";
import { type Files, fileOf, uploadNotFound } from "../../entities/files.ts";
import { type FileUse, linkFile } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { AgentMethodField } from "../../models/agent-method-field.ts";
import { type FileUpload, type FileValue, isFileValue, jobFileId } from "../../models/file.ts";

/** Files that a request names: its fields with their values, and what the job is to name. */
export interface Claimed {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly files: readonly FileValue[];
  /** Uploads that are over with that: those that count while no job uses them, and those that the request has made. */
  readonly uploads?: readonly UsedUpload[];
}

interface UsedUpload {
  readonly id: string;
  /** Whether its content came with the request: nobody else knows it. */
  readonly isBrought: boolean;
}

/** Who asks, and the jobs whose files may be named as they are. */
export interface Claimant {
  /** The access that sees only a part; `null` for those who see everything. */
  readonly owner?: string | null | undefined;
  readonly jobs?: readonly string[];
  /** What becomes of contents that come with the request: nothing is stored of one that is only checked. @default refused */
  readonly brings?: "stored" | "checked";
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
  const uploads: UsedUpload[] = [];
  const next: Record<string, unknown> = { ...fields };
  const claim = async (given: unknown, name: string): Promise<unknown> => {
    if (given === null || given === undefined || given === "") return null;
    if (!files) throw notHere(name);
    const { file, upload, isBrought = false } = await find(files, given, { claimant, name });
    found.push(file);
    if (upload && (isBrought || (upload.access !== null && !upload.used)))
      uploads.push({ id: upload.id, isBrought });
    return file;
  };
  try {
    for (const { name, field_type } of list) {
      if (field_type !== "FileField" || !(name in fields)) continue;
      const given = fields[name];
      if (Array.isArray(given)) {
        const all: unknown[] = [];
        for (const one of given) all.push(await claim(one, name));
        next[name] = all;
      } else next[name] = await claim(given, name);
      // It is as if it were not sent.
      if (next[name] === null) delete next[name];
    }
  } catch (error) {
    await discardBrought(files, uploads);
    throw error;
  }
  return { fields: next, files: found, uploads };
}

/** Does something with what was claimed; contents that came with the request and that no job names then are removed. */
export async function whileClaimed<T>(
  files: Files | undefined,
  { uploads = [] }: Claimed,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } finally {
    await discardBrought(files, uploads);
  }
}

/** What fails is done by the next sweep. */
async function discardBrought(files: Files | undefined, uploads: readonly UsedUpload[]): Promise<void> {
  for (const { id, isBrought } of uploads) if (isBrought) await files!.discard(id).catch(() => {});
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
      values = (await claimFiles(files, [field], values, { ...claimant, brings: "checked" })).fields;
    } catch (error) {
      if (!isServiceError(error) || error.status >= 500) throw error;
      problems[field.name] = textOf(error);
    }
  }
  const checked = await fields.check(values);
  if (Object.keys(problems).length === 0) return checked;
  return { ok: false, problems: { ...(!checked.ok && checked.problems), ...problems } };
}

/** Has a job name the files that its start, or an answer, has claimed, inside the unit that stores it. */
export async function linkClaimed(
  unit: Unit,
  files: Files | undefined,
  { files: claimed, uploads = [] }: Omit<Claimed, "fields">,
  use: Pick<FileUse, "job" | "origin" | "caseId">,
): Promise<void> {
  for (const file of claimed) await linkFile(unit, file, { ...use, limits: files!.limits });
  for (const { id, isBrought } of uploads) {
    if (isBrought) await unit.tx.remove("FileUpload", id);
    else if (await unit.tx.get("FileUpload", id))
      await unit.tx.change("FileUpload", id, (row) => ({ ...row, used: true }));
  }
}

async function find(
  files: Files,
  given: unknown,
  { claimant: { owner = null, jobs = [], brings }, name }: { claimant: Claimant; name: string },
): Promise<{ readonly file: FileValue; readonly upload?: FileUpload; readonly isBrought?: boolean }> {
  if (typeof given === "object" && given !== null && "upload" in given && typeof given.upload === "string") {
    const upload = await files.completed(given.upload);
    // Somebody else's does not exist.
    if (owner !== null && upload.access !== owner) throw uploadNotFound(given.upload);
    return { file: fileOf(upload), upload };
  }
  if (isFileValue(given)) {
    for (const job of jobs) if (await files.has(jobFileId(job, given.sha256))) return { file: given };
  }
  const sent = brings === undefined ? undefined : v.safeParse(SentContentSchema, given);
  if (sent?.success) {
    const { name: called = "", type, data } = sent.output;
    const bytes = Buffer.from(data, "base64");
    if (brings === "checked") return { file: files.describe({ name: called, type }, bytes) };
    const upload = await files.add(
      { name: called, type, length: bytes.length, access: owner },
      toParts(bytes),
    );
    return { file: fileOf(upload), upload, isBrought: true };
  }
  throw new ServiceError("invalid_parameters", `The field "${name}" needs a file`, {
    detail:
      'Upload it with POST /files, and send {"upload": "<id>"} in the field; or send a small one as {"name": "a.txt", "data": "<base64>"}.',
  });
}

/** A small file as a field has it where it comes with the request: its content is in base64. */
const SentContentSchema = v.strictObject({
  name: v.optional(v.string()),
  type: v.optional(v.string()),
  // A character alone is none of a byte: what was cut off would be stored without its end.
  data: v.pipe(
    v.string(),
    v.regex(/^[A-Za-z0-9+/_-]*={0,2}$/),
    v.check((text) => text.replace(/=+$/, "").length % 4 !== 1),
  ),
});

function notHere(name: string): ServiceError {
  return new ServiceError(
    "invalid_parameters",
    `The field "${name}" needs a file, and files are not kept here`,
  );
}
