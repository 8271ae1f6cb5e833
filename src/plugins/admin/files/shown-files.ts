import type { StoredCase } from "../../../core/models/case.ts";
import { type FileValue, jobFileId } from "../../../core/models/file.ts";
import type { SeenParts } from "../parts.ts";
import { type FilePreview, previewFiles, type ShownFile } from "./file-views.ts";

/** Files that are shown beside a question. */
const MOST = 4;

/** The files that a question is about: those that it names, else the newest artifacts, or files, of its case. */
export async function findShownFiles(
  { files }: Pick<SeenParts, "files">,
  { id, job_id, question }: StoredCase,
): Promise<readonly ShownFile[]> {
  if (question?.files) {
    // Of what an older record names, some may be gone.
    const isThere = await Promise.all(
      question.files.map(({ sha256 }) => files.has(jobFileId(job_id, sha256))),
    );
    return question.files.filter((_, at) => isThere[at]).slice(0, MOST);
  }
  const listed = (await files.list(job_id)).filter(
    ({ case_id, origin }) => case_id === id && origin === "step",
  );
  const artifacts = listed.filter(({ artifact }) => artifact !== undefined);
  return (artifacts.length > 0 ? artifacts : listed)
    .slice(-MOST)
    .map(({ name, type, size, sha256 }) => ({ name, type, size, sha256 }));
}

/** The same with their contents; `hrefOf` says where each is, if not on the pages of its job. */
export async function readShownFiles(
  parts: Pick<SeenParts, "files">,
  item: StoredCase,
  {
    shown,
    hrefOf,
  }: {
    readonly shown?: readonly ShownFile[];
    readonly hrefOf?: (file: FileValue, isInline: boolean) => string;
  } = {},
): Promise<FilePreview[]> {
  return previewFiles(parts.files, item.job_id, shown ?? (await findShownFiles(parts, item)), hrefOf);
}
