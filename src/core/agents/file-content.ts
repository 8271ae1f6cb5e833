import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { FileValue } from "../models/file.ts";

/** What a file is made of: text, bytes, a stream of bytes, or a file of this machine. */
export type FileData =
  | string
  | Uint8Array
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | { readonly path: string };

export interface NewFileOptions {
  /** Media type. @default by its content and name */
  readonly type?: string;
}

/** A file of a job, whose content can be read. */
export interface OpenFile extends FileValue {
  stream(): ReadableStream<Uint8Array>;
  bytes(): Promise<Uint8Array>;
  /** The content as UTF-8. */
  text(): Promise<string>;
  blob(): Promise<Blob>;
}

/** The bytes of a file, a part at a time. */
export function toParts(data: FileData): AsyncIterable<Uint8Array> {
  if (typeof data === "string") return Readable.from([Buffer.from(data)]);
  if (data instanceof Uint8Array) return Readable.from([data], { objectMode: true });
  if (data instanceof Blob) return Readable.fromWeb(data.stream() as never);
  if (data instanceof ReadableStream) return Readable.fromWeb(data as never);
  if (typeof data === "object" && data !== null) {
    if (Symbol.asyncIterator in data) return data;
    if ("path" in data && typeof data.path === "string") return createReadStream(data.path);
  }
  throw new TypeError(
    "The content of a file must be text, bytes, a Blob, a stream, or { path } of a file of this machine",
  );
}

/** A file with what reads it; `read` gives its bytes, and refuses a file that is not the job's. */
export function openFile(file: FileValue, read: () => AsyncIterable<Uint8Array>): OpenFile {
  // Libraries refuse a `Buffer`, or transfer the memory, which a small one shares with others.
  const bytes = async (): Promise<Uint8Array<ArrayBuffer>> => {
    const parts: Uint8Array[] = [];
    for await (const part of read()) parts.push(part);
    const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  };
  const { name, type, size, sha256 } = file;
  return {
    ...{ name, type, size, sha256 },
    stream: () => Readable.toWeb(Readable.from(read(), { objectMode: true })) as ReadableStream<Uint8Array>,
    bytes,
    text: async () => Buffer.from((await bytes()).buffer).toString("utf8"),
    blob: async () => new Blob([await bytes()], { type }),
  };
}
