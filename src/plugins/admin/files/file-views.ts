import type { Files } from "../../../core/entities/files.ts";
import type { FileOrigin, FileValue, ListedFile } from "../../../core/models/file.ts";
import { kindOf } from "../../../core/models/file-kind.ts";
import type { SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { formatBytes, formatCount } from "../views/format.ts";
import { html } from "../views/html.ts";
import { pathTo, timePiece } from "../views/pieces.ts";
import { renderPreview } from "./preview.ts";

/** Files of which a page shows the content, and those that it lists. */
const PREVIEWED = 4;
const LISTED = 50;

const ORIGINS: Readonly<Record<FileOrigin, string>> = { field: "Input", answer: "Answer", step: "Step" };

/** The list of files of a job, or of one of its cases; `undefined` where there are none. */
export async function filesView(
  { files }: Pick<SeenParts, "files">,
  jobId: string,
  { now, caseId }: { readonly now: Date; readonly caseId?: string },
) {
  const all = await files.list(jobId);
  const items = caseId === undefined ? all : all.filter((file) => file.case_id === caseId);
  if (items.length === 0) return undefined;
  // What people are to see comes first, the newest on top.
  const artifacts = items.filter(({ artifact }) => artifact !== undefined).reverse();
  const others = items.filter(({ artifact }) => artifact === undefined);
  return {
    count: formatCount(items.length),
    note: items.length > LISTED ? `The first ${LISTED}.` : "",
    rows: [...artifacts, ...others].slice(0, LISTED).map((file) => toRow(jobId, file, now)),
  };
}

function toRow(jobId: string, file: ListedFile, now: Date) {
  const { artifact, title, name, type, size } = file;
  return {
    name: title ?? name,
    // What it is to people, where its agent has said so.
    tag: artifact ?? "",
    about: [title === undefined ? "" : name, ORIGINS[file.origin], type, formatBytes(size)]
      .filter(Boolean)
      .join(" · "),
    thumb:
      kindOf(file) === "image" && file.size > 0
        ? html`<img src="${contentPath(jobId, file, true)}" alt="" width="34" height="34" loading="lazy">`.toString()
        : "",
    created: timePiece(file.created_at, now).toString(),
    viewHref: viewPath(jobId, file),
    downloadHref: contentPath(jobId, file),
  };
}

/** A file with its content, as a page shows it. */
export interface FilePreview {
  readonly name: string;
  readonly about: string;
  readonly preview: string;
  readonly downloadHref: string;
}

/** A file that is to be shown, and the page of it. */
export type ShownFile = FileValue & { readonly page?: number | undefined };

/** The content of a few files of a job; `hrefOf` says where each is. */
export function previewFiles(
  files: Files,
  jobId: string,
  shown: readonly ShownFile[],
  hrefOf: (file: FileValue, isInline: boolean) => string = (file, isInline) =>
    contentPath(jobId, file, isInline),
): Promise<FilePreview[]> {
  return Promise.all(
    shown.slice(0, PREVIEWED).map(async (file) => {
      const { name, type, size, page } = file;
      const preview = await renderPreview({
        ...{ file, page, href: hrefOf(file, true) },
        read: (bytes) => readFirst(files, { jobId, sha256: file.sha256, bytes }),
      });
      return {
        ...{ name, about: `${type} · ${formatBytes(size)}`, preview: preview.toString() },
        downloadHref: hrefOf(file, false),
      };
    }),
  );
}

/** The path of a file's page. */
export function viewPath(jobId: string, { sha256, name }: FileValue): string {
  return withQuery(pathTo("jobs", jobId, "files", sha256, "view"), { name });
}

/** The path of a file's content: to be downloaded, or to be shown in a page. */
export function contentPath(jobId: string, { sha256, name }: FileValue, isInline = false): string {
  return withQuery(pathTo("jobs", jobId, "files", sha256), { name, ...(isInline && { inline: "true" }) });
}

async function readFirst(
  files: Files,
  { jobId, sha256, bytes }: { readonly jobId: string; readonly sha256: string; readonly bytes: number },
): Promise<Buffer> {
  const { content } = await files.ofJob(jobId, sha256);
  const parts: Buffer[] = [];
  for await (const part of files.read(content, { from: 0, to: Math.min(bytes, content.size) - 1 }))
    parts.push(part);
  return Buffer.concat(parts);
}
