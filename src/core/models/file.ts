import * as v from "valibot";
import { NameSchema, TimestampSchema } from "./scalars.ts";

/** SHA-256 of a content, in hexadecimal. */
export const Sha256Schema = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hexadecimal"));

/** A file as a value: in fields, results and answers. Its content is stored once, whatever names it. */
export const FileValueSchema = v.object({
  name: NameSchema,
  /** Media type, such as `application/pdf`. */
  type: v.string(),
  /** Bytes. */
  size: v.number(),
  sha256: Sha256Schema,
});
export type FileValue = v.InferOutput<typeof FileValueSchema>;

/** Whether a value has all parts of a file and no others. */
export function isFileValue(value: unknown): value is FileValue {
  return (
    typeof value === "object" &&
    value !== null &&
    "sha256" in value &&
    Object.keys(value).length === 4 &&
    v.is(FileValueSchema, value)
  );
}

/** The files anywhere in a JSON value, each content once. */
export function filesIn(value: unknown, found: Map<string, FileValue> = new Map()): Map<string, FileValue> {
  if (typeof value !== "object" || value === null) return found;
  if (isFileValue(value)) return found.has(value.sha256) ? found : found.set(value.sha256, value);
  for (const one of Array.isArray(value) ? value : Object.values(value)) filesIn(one, found);
  return found;
}

/** What a job has a file for: a field of its start, an answer, or a step that made it. */
export const FileOriginSchema = v.picklist(["field", "answer", "step"]);
export type FileOrigin = v.InferOutput<typeof FileOriginSchema>;

/** A file of a job, as listed. */
export const ListedFileSchema = v.object({
  ...FileValueSchema.entries,
  origin: FileOriginSchema,
  /** The case that it belongs to, if any. */
  case_id: v.nullable(v.string()),
  created_at: TimestampSchema,
  /** What it is to people, such as `report`, where its agent has said so; and the title that it gave it. */
  artifact: v.optional(v.string()),
  title: v.optional(v.string()),
});
export type ListedFile = v.InferOutput<typeof ListedFileSchema>;

/** A part of a content as it is stored: id, bytes, and CRC-32. */
export type FileChunk = readonly [id: string, size: number, crc: number];

/** A content that is stored, whole. */
export interface FileContent {
  /** Its SHA-256. */
  readonly id: string;
  /** Where its chunks are: a name that no other content ever has. */
  readonly place: string;
  readonly size: number;
  readonly chunks: readonly FileChunk[];
  readonly created_at: string;
}

/** A file whose content is stored, and that nothing names yet. */
export interface WrittenFile extends FileValue {
  readonly place: string;
  readonly chunks: readonly FileChunk[];
}

/** A content that is being sent, or that was and is not yet named by a job. */
export interface FileUpload {
  readonly id: string;
  readonly place: string;
  readonly name: string;
  readonly type: string;
  /** Bytes that it will have, if its sender said so. */
  readonly length: number | null;
  readonly received: number;
  readonly chunks: readonly FileChunk[];
  /** Of its content, once that is whole. */
  readonly sha256: string | null;
  /** The access that sends it, where that sees only a part; the only one that may use it then. */
  readonly access: string | null;
  /** Whether a job names its content: it does not count as one that its sender has left. */
  readonly used?: boolean;
  /** When it was last added to. */
  readonly touched_at: string;
}

/** What a job names a content, and since when. */
export interface FileName {
  readonly name: string;
  readonly type: string;
  readonly origin: FileOrigin;
  readonly case_id: string | null;
  readonly created_at: string;
  readonly artifact?: string;
  readonly title?: string;
}

/** A content that a job names: the right to read it, and the reason that it is kept. */
export interface JobFile {
  /** See `jobFileId`. */
  readonly id: string;
  readonly job_id: string;
  readonly workspace: string;
  /** Of its job: its agent, and the access that started it, where that sees only a part. Rows of earlier versions have neither. */
  readonly agent_name?: string;
  readonly access?: string | null;
  readonly sha256: string;
  readonly size: number;
  readonly names: readonly FileName[];
  readonly created_at: string;
}

/**
 * A content that is a large result of a step: the reason that it is kept. It is not one of the job's files, and counts for
 * no limit.
 */
export interface JobResult {
  /** See `jobFileId`. */
  readonly id: string;
  readonly job_id: string;
  readonly sha256: string;
  readonly size: number;
  readonly created_at: string;
}

/** What a large result is called: the same for all, so that those with equal contents are equal. */
export const LARGE_RESULT = { name: "result.json", type: "application/json" } as const;

/** Bytes that the contents of a job, or of a workspace, have. Changes only together with the rows that it adds up. */
export interface FileTotal {
  readonly id: string;
  readonly bytes: number;
}

/** Chunks that nothing names and that are to be removed; the id is their place. */
export interface FileRemoval {
  readonly id: string;
  readonly due_at: string;
}

/** How much is accepted, in bytes. */
export interface FileLimits {
  /** Of one file. */
  readonly file: number;
  /** Of the files of one job. */
  readonly job: number;
  /** Of the files of all jobs of one workspace. */
  readonly workspace: number;
}

/** What a content of a job is called in lists: as the artifact that was named last, else as it was named first. */
export function nameOfFile({ names }: Pick<JobFile, "names">): FileName {
  return names.findLast(({ artifact }) => artifact !== undefined) ?? names[0]!;
}

/** The id of the row for a content of a job. */
export function jobFileId(jobId: string, sha256: string): string {
  return `${sha256}.${jobId}`;
}
