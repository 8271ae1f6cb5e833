import type { FileValue, WrittenFile } from "../models/file.ts";
import type { Files } from "./files.ts";
import { type FileUse, isGone, linkFile, linkResult } from "./job-files.ts";
import type { Unit } from "./ledger.ts";

/** Has a job name what was written for it, inside the unit that stores what names it. */
export async function linkWritten(
  unit: Unit,
  files: Files,
  file: WrittenFile,
  use: Omit<FileUse, "limits">,
): Promise<void> {
  await storeContent(unit, files, file);
  await linkFile(unit, toFileValue(file), { ...use, limits: files.limits });
}

/** Has a job keep a result of a step that was written for it. */
export async function keepResultOf(
  unit: Unit,
  files: Files,
  file: WrittenFile,
  jobId: string,
): Promise<void> {
  await storeContent(unit, files, file);
  await linkResult(unit, { job_id: jobId, sha256: file.sha256, size: file.size });
}

/** The file alone, as it is in values. */
export function toFileValue({ name, type, size, sha256 }: FileValue): FileValue {
  return { name, type, size, sha256 };
}

/** Makes what was written a content, unless there is the same one. */
async function storeContent(unit: Unit, files: Files, file: WrittenFile): Promise<void> {
  const { sha256: id, place, size, chunks } = file;
  if (await unit.tx.get("FileContent", id)) {
    unit.afterwards(() => void files.drop(file));
    return;
  }
  if (files.isLate(file)) throw isGone(file);
  await unit.tx.insert("FileContent", { id, place, size, chunks, created_at: unit.now });
}
