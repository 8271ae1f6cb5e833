import { ServiceError } from "../base/errors.ts";
import { wellFormed } from "../base/well-formed.ts";
import type { FileContent, FileName } from "../models/file.ts";

/** Types that browsers show without running anything of them; text is shown as it is written. */
const SHOWN = new Set([
  ...["application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"],
  ...["audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/webm"],
  ...["video/mp4", "video/webm", "video/ogg"],
]);
const TEXT = /^(?:text\/(?:plain|csv|markdown)|application\/json)$/;
/** Bytes up to which text is shown: a browser lays out all of it, which takes minutes for what is a download here. */
const LONGEST_TEXT = 1024 * 1024;

/** Types with scripts and forms: shown in a frame of our pages only, where nothing of them runs. */
const MARKUP = /^(?:text\/html|application\/xhtml\+xml|image\/svg\+xml)$/;

/** Nothing in a file may do anything in the service's origin, whatever a browser takes it for. */
const POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'";
/** In a frame of our pages, a file has the looks that it brings along, and reaches nothing. */
const FRAMED_MARKUP =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox; frame-ancestors 'self'";
/** Browsers show no PDF in a sandbox; what they run of one is in their own viewer, and not in this origin. */
const FRAMED_PDF = "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; frame-ancestors 'self'";

/** Whether a response is the content of a file, whose policy is for that file alone. */
export function isFileAnswer({ headers }: Response): boolean {
  return POLICIES.has(headers.get("content-security-policy") ?? "");
}

const POLICIES: ReadonlySet<string> = new Set([POLICY, FRAMED_MARKUP, FRAMED_PDF]);

interface Sent {
  readonly content: FileContent;
  readonly named: Pick<FileName, "name" | "type">;
  readonly isInline: boolean;
  /** Whether our pages show it in a frame. */
  readonly isFramed?: boolean;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** A file as a response: a download, unless a browser can show it safely; whole, or the range that was asked for. */
export function fileResponse(
  request: Request,
  { content: { id, size }, named, isInline, isFramed = false }: Sent,
  read: (range?: Range) => AsyncGenerator<Uint8Array, void>,
): Response {
  const etag = `"${id}"`;
  const isText = TEXT.test(named.type) && size <= LONGEST_TEXT;
  // Opened in a window of its own, markup is a download.
  const isMarkup =
    isFramed && isInline && MARKUP.test(named.type) && request.headers.get("sec-fetch-dest") === "iframe";
  const isFramedPdf = isFramed && isInline && named.type === "application/pdf";
  const isShown = isInline && (isText || isMarkup || SHOWN.has(named.type));
  const headers = new Headers({
    "content-type": isShown
      ? isText
        ? "text/plain; charset=utf-8"
        : isMarkup
          ? "text/html; charset=utf-8"
          : named.type
      : "application/octet-stream",
    "content-disposition": disposition(isShown ? "inline" : "attachment", named.name),
    "content-security-policy": isMarkup ? FRAMED_MARKUP : isFramedPdf ? FRAMED_PDF : POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
    "accept-ranges": "bytes",
    etag,
  });
  if (request.headers.get("if-none-match")?.includes(etag))
    return new Response(null, { status: 304, headers });
  const given = request.headers.get("if-range");
  const range = given === null || given === etag ? readRange(request.headers.get("range"), size) : undefined;
  const length = range ? range.to - range.from + 1 : size;
  headers.set("content-length", String(length));
  if (range) headers.set("content-range", `bytes ${range.from}-${range.to}/${size}`);
  const status = range ? 206 : 200;
  if (request.method === "HEAD" || length === 0) return new Response(null, { status, headers });
  return new Response(toStream(read(range)), { status, headers });
}

/** The range that is asked for; several at the same time are answered with the whole. */
function readRange(text: string | null, size: number): Range | undefined {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(text?.trim() ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  const range =
    first === ""
      ? { from: Math.max(size - Number(last), 0), to: size - 1 }
      : { from: Number(first), to: Math.min(last === "" ? size - 1 : Number(last), size - 1) };
  const isBackwards = first !== "" && last !== "" && Number(last) < Number(first);
  if (isBackwards) return undefined;
  if (range.from < size && range.from <= range.to && (first !== "" || Number(last) > 0)) return range;
  throw new ServiceError("invalid_request", "The file does not have this range", {
    status: 416,
    headers: { "content-range": `bytes */${size}` },
  });
}

/** RFC 6266: the name in ASCII for old programs, and as it is. */
function disposition(kind: "inline" | "attachment", name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const encoded = encodeURIComponent(wellFormed(name)).replace(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `${kind}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** What is not read is not fetched. */
function toStream(parts: AsyncGenerator<Uint8Array, void>): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const { value, done } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await parts.return();
      },
    },
    { highWaterMark: 0 },
  );
}
