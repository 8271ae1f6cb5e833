import { isUtf8 } from "node:buffer";
import { ServiceError } from "../../base/errors.ts";

/** How contents of types begin; `undefined` bytes may be anything. */
const SIGNATURES: readonly (readonly [type: string, test: (bytes: Uint8Array) => boolean])[] = [
  // Readers find the header anywhere in the first 1024 bytes; what has something else before it is none here.
  ["application/pdf", starts("%PDF-")],
  ["image/png", starts("\x89PNG\r\n\x1a\n")],
  ["image/jpeg", starts("\xff\xd8\xff")],
  ["image/gif", (bytes) => starts("GIF87a")(bytes) || starts("GIF89a")(bytes)],
  ["image/webp", (bytes) => starts("RIFF")(bytes) && starts("WEBP", 8)(bytes)],
  ["image/avif", starts("ftypavif", 4)],
  ["image/bmp", (bytes) => starts("BM")(bytes) && bytes.length > 26],
  ["audio/wav", (bytes) => starts("RIFF")(bytes) && starts("WAVE", 8)(bytes)],
  ["audio/mpeg", (bytes) => starts("ID3")(bytes) || (bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe6) === 0xe2)],
  ["audio/ogg", starts("OggS")],
  ["audio/flac", starts("fLaC")],
  ["video/webm", starts("\x1aE\xdf\xa3")],
  ["video/mp4", (bytes) => starts("ftyp", 4)(bytes) && !starts("ftypavif", 4)(bytes)],
  ["application/zip", (bytes) => starts("PK\x03\x04")(bytes) || starts("PK\x05\x06")(bytes)],
  ["application/gzip", starts("\x1f\x8b")],
];
/** Names of the same type, and types whose contents begin as those of another one do. */
const ALSO: Readonly<Record<string, readonly string[]>> = {
  "image/jpg": ["image/jpeg"],
  "audio/x-wav": ["audio/wav"],
  "audio/mp3": ["audio/mpeg"],
  "audio/mp4": ["video/mp4"],
  "video/quicktime": ["video/mp4"],
  "audio/webm": ["video/webm"],
  "video/ogg": ["audio/ogg"],
  "application/x-gzip": ["application/gzip"],
};
const CHECKED = new Set([...SIGNATURES.map(([type]) => type), ...Object.keys(ALSO)]);
const BY_NAME: Readonly<Record<string, string>> = {
  ...{ txt: "text/plain", md: "text/markdown", csv: "text/csv", html: "text/html", json: "application/json" },
  ...{ xml: "application/xml", svg: "image/svg+xml", eml: "message/rfc822" },
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
};
const TYPE = /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/;
const UNKNOWN = "application/octet-stream";

/**
 * The type of a content that begins with these bytes. Rejects one that says to be of a type whose contents begin in another
 * way. Without a type, it is that of the content, or of the name where that fits.
 */
export function contentType(first: Uint8Array, given: string | undefined, name: string): string {
  const declared = (given ?? "").split(";")[0]!.trim().toLowerCase();
  if (declared !== "" && !TYPE.test(declared)) {
    throw new ServiceError("invalid_request", "The type of the file is not a media type", {
      detail: "Send one such as application/pdf, or none.",
    });
  }
  const found = SIGNATURES.filter(([, test]) => test(first)).map(([type]) => type);
  if (declared !== "" && declared !== UNKNOWN) {
    const fits = [declared, ...(ALSO[declared] ?? [])].some((type) => found.includes(type));
    if (!CHECKED.has(declared) || fits || first.length === 0) return declared;
    throw new ServiceError(
      "unsupported_media_type",
      `The content of the file "${name}" is not ${declared}${found[0] === undefined ? "" : ` but ${found[0]}`}`,
      { detail: "Send it with the type that it has, or without a type." },
    );
  }
  const named = BY_NAME[/\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? ""];
  if (found[0] !== undefined)
    return found[0] === "application/zip" && named?.startsWith("application/vnd.") ? named : found[0];
  if (!isText(first)) return UNKNOWN;
  return named === undefined || named.startsWith("application/vnd.") ? "text/plain" : named;
}

function starts(text: string, at = 0): (bytes: Uint8Array) => boolean {
  const wanted = Buffer.from(text, "latin1");
  return (bytes) => wanted.equals(bytes.subarray(at, at + wanted.length));
}

/** Whether bytes are text; a character at the end may be cut. */
function isText(bytes: Uint8Array): boolean {
  if (bytes.includes(0)) return false;
  for (let cut = 0; cut < 4 && cut <= bytes.length; cut++)
    if (isUtf8(bytes.subarray(0, bytes.length - cut))) return true;
  return false;
}
