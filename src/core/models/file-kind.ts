import type { FileValue } from "./file.ts";

/** How a file is shown. */
export type FileKind =
  | ("image" | "pdf" | "audio" | "video" | "page")
  | ("markdown" | "csv" | "json" | "diff" | "text" | "none");

const BY_TYPE: readonly (readonly [RegExp, FileKind])[] = [
  [/^image\/(?:png|jpeg|gif|webp|avif|bmp)$/, "image"],
  [/^application\/pdf$/, "pdf"],
  [/^audio\/(?:wav|mpeg|ogg|flac|mp4|webm)$/, "audio"],
  [/^video\/(?:mp4|webm|ogg)$/, "video"],
  [/^(?:text\/html|application\/xhtml\+xml|image\/svg\+xml)$/, "page"],
  [/^text\/markdown$/, "markdown"],
  [/^text\/csv$/, "csv"],
  [/^application\/(?:[\w.-]+\+)?json$/, "json"],
  [/^text\/(?:x-diff|x-patch)$/, "diff"],
  [/^(?:text\/[\w.+-]+|application\/(?:[\w.-]+\+)?(?:xml|yaml|javascript)|message\/rfc822)$/, "text"],
];
/** Text whose name says more than its type. */
const BY_NAME: readonly (readonly [RegExp, FileKind])[] = [
  [/\.(?:diff|patch)$/i, "diff"],
  [/\.(?:md|markdown)$/i, "markdown"],
  [/\.csv$/i, "csv"],
];

/** How a file is shown, by its type, which was compared with its content when it came. */
export function kindOf({ type, name }: Pick<FileValue, "type" | "name">): FileKind {
  const kind = BY_TYPE.find(([pattern]) => pattern.test(type))?.[1] ?? "none";
  return kind === "text" ? (BY_NAME.find(([pattern]) => pattern.test(name))?.[1] ?? kind) : kind;
}

/** What lists of files can be filtered by: each kind is in one of these groups. */
export const FILE_GROUPS = ["picture", "pdf", "recording", "data", "text", "page", "other"] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];

const GROUP_OF: Readonly<Record<FileKind, FileGroup>> = {
  image: "picture",
  pdf: "pdf",
  audio: "recording",
  video: "recording",
  page: "page",
  markdown: "text",
  text: "text",
  diff: "text",
  csv: "data",
  json: "data",
  none: "other",
};

/** The group of a file. Stored indexes have it: another result for a file needs another version of the table. */
export function groupOf(file: Pick<FileValue, "type" | "name">): FileGroup {
  return GROUP_OF[kindOf(file)];
}

/** Whether a browser fetches the content of a file to show it; others are shown by their text, in the page. */
export function isFetched(kind: FileKind): boolean {
  return ["image", "pdf", "audio", "video", "page"].includes(kind);
}
