import type { GivenFile } from "../agents/read-values.ts";
import { ServiceError } from "../base/errors.ts";
import { wellFormed } from "../base/well-formed.ts";
import type { FileValue } from "../models/file.ts";

/** A file in a message, as protocols have it: one of `data`, `url` and `upload`. */
export interface FilePart {
  readonly name?: string | undefined;
  /** Media type. */
  readonly type?: string | undefined;
  /** The content in base64, or a `data:` URL. */
  readonly data?: string | undefined;
  readonly url?: string | undefined;
  /** Id of an upload. */
  readonly upload?: string | undefined;
}

/** What a field takes for a file of a message. Contents are never fetched from a URL. */
export function toGivenFile({ name, type, data, url, upload }: FilePart): GivenFile {
  if (upload !== undefined) return { upload };
  const content = data ?? url;
  if (content !== undefined && /^data:/i.test(content)) return readDataUrl(content, { name, type });
  if (data !== undefined) return { data, ...known({ name, type }) };
  throw new ServiceError(
    "invalid_request",
    url === undefined ? "The file has no content" : "The content of the file is at a URL, and is not fetched",
    {
      status: 415,
      detail: 'Send it in base64, or upload it with POST /files and send {"upload": "<id>"} in a field.',
    },
  );
}

function readDataUrl(url: string, { name, type }: Pick<FilePart, "name" | "type">): GivenFile {
  const comma = url.indexOf(",");
  const [mediaType = "", ...parameters] = url.slice("data:".length, comma).split(";");
  const given = known({ name, type: mediaType.trim() || type });
  const content = url.slice(comma + 1);
  if (comma === -1) throw malformed();
  if (parameters.some((one) => one.trim().toLowerCase() === "base64")) return { data: content, ...given };
  try {
    return { data: Buffer.from(decodeURIComponent(content)).toString("base64"), ...given };
  } catch {
    throw malformed();
  }
}

/** Without what is not said: it is part of what a repeated request must have. */
function known({ name, type }: Pick<FilePart, "name" | "type">) {
  return { ...(name && { name }), ...(type && { type }) };
}

function malformed(): ServiceError {
  return new ServiceError("invalid_request", "The content of the file is not a data: URL", {
    detail: "Such as data:application/pdf;base64,JVBERi0….",
  });
}

/** Where clients get a file of a job, with the same rights as the job; `base` is the service's URL and prefix. */
export function fileUrl(base: string, jobId: string, { sha256, name }: FileValue): string {
  return `${base}/jobs/${encodeURIComponent(jobId)}/files/${sha256}?name=${encodeURIComponent(wellFormed(name))}`;
}
