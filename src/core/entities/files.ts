import { createHash, type Hash, randomUUID } from "node:crypto";
import { ServiceError } from "../base/errors.ts";
import { KeyedMutex } from "../base/keyed-mutex.ts";
import type {
  FileChunk,
  FileContent,
  FileLimits,
  FileName,
  FileUpload,
  FileValue,
  JobFile,
  ListedFile,
  WrittenFile,
} from "../models/file.ts";
import { jobFileId, LARGE_RESULT } from "../models/file.ts";
import type { UnstorageStorage } from "../storage/open-storage.ts";
import type { Keyring } from "../store/encryption/keyring.ts";
import { contentType } from "../store/files/content-type.ts";
import { ageOf, FileChunks, inChunks, newPlace } from "../store/files/file-chunks.ts";
import { storageError } from "../store/storage-error.ts";
import type { ListQuery, Page, Store } from "../store/store.ts";
import { announceRemoval } from "./job-files.ts";
import { readResultOf } from "./large-results.ts";
import type { Ledger } from "./ledger.ts";

export interface FilesParts {
  readonly store: Store;
  readonly ledger: Ledger;
  /** Keeps the contents. */
  readonly storage: UnstorageStorage;
  /** What contents are encrypted with. */
  readonly keys?: Keyring | undefined;
  readonly limits: FileLimits;
}

/** What a new file is. */
export interface NewFile {
  readonly name: string;
  /** What its sender says; it is checked by the content. */
  readonly type?: string | undefined;
  /** Bytes that it will have, if that is known. */
  readonly length?: number | null;
  /** The access that sends it, where that sees only a part. */
  readonly access?: string | null;
}

/** A content with its names in a job, at least one. */
export interface NamedContent extends Pick<JobFile, "sha256" | "size" | "created_at"> {
  readonly names: readonly Pick<FileName, "name" | "type">[];
}

/** Bytes of a content, both ends included. */
export interface FileRange {
  readonly from: number;
  readonly to: number;
}

/** Milliseconds for which a content is kept that no job names, since it was written or last added to. */
export const UPLOAD_KEEP = 24 * 3_600_000;
/** How much earlier a job can no longer name one: clocks of instances differ, and a commit takes its time. */
const LATE = 3_600_000;

/** Uploads that no job uses, which a caller who sees only a part may have at the same time. */
const MOST_UNUSED = 1000;

/** The state of the hash of an upload that one request sends whole. */
interface Progress {
  readonly upload: FileUpload;
  readonly hash: Hash | undefined;
}

/**
 * The contents of files. One is written to a place of its own, and counts once a transaction names that place as the place
 * of a content; where the content is known by then, the place is removed. Until then, an upload has a row; what is written
 * for a job has none, and is kept for a day by the time in the name of its place. What nothing names any longer is removed
 * by `FileSweep`, whatever a crash has left.
 */
export class Files {
  readonly #parts: FilesParts;
  readonly #chunks: FileChunks;
  /** Of one sender, one upload after another begins and is finished: each counts those before it. */
  readonly #senders = new KeyedMutex();
  /** Places of what is written here for jobs, until these name it: a clock that is set forward does not remove them. */
  readonly #underWay = new Set<string>();

  constructor(parts: FilesParts) {
    this.#parts = parts;
    this.#chunks = new FileChunks(parts.storage, parts.keys);
  }

  /** Where the contents are. */
  get storage(): UnstorageStorage {
    return this.#parts.storage;
  }

  get limits(): FileLimits {
    return this.#parts.limits;
  }

  /** Whether values of jobs can be stored as contents: what reads them has the store alone. */
  get keepsValues(): boolean {
    return this.#parts.store.contents !== undefined;
  }

  /** Stores a whole file; it is kept for a day, or as long as a job names it. */
  async add(file: NewFile, source: AsyncIterable<Uint8Array>): Promise<FileUpload> {
    const begun = await this.begin(file);
    try {
      const { upload, hash } = await this.#receive(begun, source, false);
      // Only now it is known how large one is that came without its length.
      return await this.#counted(upload, upload.received, () => this.#finish(upload, hash));
    } catch (error) {
      await this.discard(begun.id).catch(() => {});
      throw error;
    }
  }

  /** Stores the content of a file that a job is about to name. Call `release` once it does, or never will. */
  write({ name: given, type = "" }: NewFile, source: AsyncIterable<Uint8Array>): Promise<WrittenFile> {
    return this.#writeAt(async (place, touched_at) => {
      const name = toFileName(given);
      const begun: FileUpload = {
        ...{ id: "", place, name, type, length: null, access: null },
        ...{ received: 0, chunks: [], sha256: null, touched_at },
      };
      const { upload, hash } = await this.#receive(begun, source, false);
      const { received: size, chunks } = upload;
      return { name, type: typeOf(upload), size, sha256: hash!.digest("hex"), place, chunks };
    });
  }

  /** The same for a value of the job itself, as JSON: the limits are for files. */
  writeJson(named: Pick<FileValue, "name" | "type">, json: string): Promise<WrittenFile> {
    return this.#writeAt(async (place) => {
      const bytes = Buffer.from(json);
      const chunks: FileChunk[] = [];
      for await (const part of inChunks([bytes])) chunks.push(await this.#chunks.put(place, part));
      const sha256 = createHash("sha256").update(bytes).digest("hex");
      return { ...named, size: bytes.length, sha256, place, chunks };
    });
  }

  async #writeAt(work: (place: string, now: string) => Promise<WrittenFile>): Promise<WrittenFile> {
    const now = this.#parts.ledger.now();
    const place = newPlace(Date.parse(now));
    this.#underWay.add(place);
    try {
      return await work(place, now);
    } catch (error) {
      this.#underWay.delete(place);
      await this.#chunks.remove(place).catch(() => {});
      throw error;
    }
  }

  /** The value of a result that a job has stored so. */
  readResult(file: FileValue): Promise<unknown> {
    return readResultOf({ store: this.#parts.store, chunks: this.#chunks }, file);
  }

  /** What was written is named by now, or is left to the sweep. */
  release(files: readonly WrittenFile[]): void {
    for (const { place } of files) this.#underWay.delete(place);
  }

  /** Removes the chunks of what was written and is known from elsewhere; what fails is done by the sweep. */
  async drop({ place, chunks }: WrittenFile): Promise<void> {
    const ids = chunks.map(([id]) => id);
    await this.#chunks.remove(place, ids).catch(() => {});
  }

  /** Whether something may be about to name a place that no row names. */
  isUnderWay(place: string): boolean {
    return this.#underWay.has(place) || Math.abs(this.#ageOf(place)) < UPLOAD_KEEP;
  }

  /** Whether it is too late to name what was written: a sweep may have removed it. */
  isLate({ place }: WrittenFile): boolean {
    return Math.abs(this.#ageOf(place)) > UPLOAD_KEEP - LATE;
  }

  #ageOf(place: string): number {
    return ageOf(place, Date.parse(this.#parts.ledger.now()));
  }

  /** What a content would be as a file; nothing is stored. */
  describe({ name, type }: Pick<NewFile, "name" | "type">, bytes: Uint8Array): FileValue {
    this.#refuseLarger(bytes.length);
    const called = toFileName(name);
    return {
      name: called,
      type: contentType(bytes.subarray(0, 4096), type, called),
      size: bytes.length,
      sha256: createHash("sha256").update(bytes).digest("hex"),
    };
  }

  /** Makes room for a file whose content is sent in one or more parts. */
  async begin({ name: given, type = "", length = null, access = null }: NewFile): Promise<FileUpload> {
    const name = toFileName(given);
    if (length !== null) this.#refuseLarger(length);
    const id = randomUUID();
    return this.#counted({ id, access }, length ?? 0, () =>
      this.#parts.ledger.write(async ({ tx, now }) => {
        const upload: FileUpload = {
          ...{ id, place: newPlace(Date.parse(now)), name, type, length, access },
          ...{ received: 0, chunks: [], sha256: null, touched_at: now },
        };
        await tx.insert("FileUpload", upload);
        return upload;
      }),
    );
  }

  /** Stores an upload of a caller who sees only a part, unless those that it has and no job uses are too many with it. */
  #counted(
    { id, access }: Pick<FileUpload, "id" | "access">,
    bytes: number,
    work: () => Promise<FileUpload>,
  ): Promise<FileUpload> {
    if (access === null) return work();
    return this.#senders.run(access, async () => {
      const query = { where: { unused_of: access }, sort: "touched_at", limit: MOST_UNUSED + 1 };
      const unused = await this.#parts.store.table("FileUpload").list(query);
      const others = unused.items.filter((one) => one.id !== id);
      const sum = others.reduce((before, { length, received }) => before + (length ?? received), bytes);
      const { job: most } = this.#parts.limits;
      if (others.length >= MOST_UNUSED) throw tooMany(`${MOST_UNUSED} uploads`);
      if (sum > most) throw tooMany(`more than ${most} bytes in uploads`);
      return work();
    });
  }

  /** Adds to an upload what comes after the bytes that it has. What arrived before a failure is kept. */
  async append(id: string, offset: number, source: AsyncIterable<Uint8Array>): Promise<FileUpload> {
    const before = await this.find(id);
    if (before.sha256 !== null && offset === before.received) return before;
    if (before.sha256 !== null || before.received !== offset) throw isElsewhere(before);
    const { upload, hash } = await this.#receive(before, source, true);
    return upload.received === upload.length ? this.#finish(upload, hash) : upload;
  }

  /** An upload that has not expired. */
  async find(id: string): Promise<FileUpload> {
    const upload = await this.#parts.store.table("FileUpload").get(id);
    if (upload) return upload;
    throw uploadNotFound(id);
  }

  /** An upload, finished if all of it has arrived: its sender may not have heard of that. */
  async completed(id: string): Promise<FileUpload> {
    const upload = await this.find(id);
    return upload.sha256 === null && upload.received === upload.length
      ? this.#finish(upload, undefined)
      : upload;
  }

  /** Forgets an upload; a content that a job names stays. */
  async discard(id: string): Promise<void> {
    const { ledger } = this.#parts;
    const place = await ledger.write(async (unit) => {
      const upload = await unit.tx.get("FileUpload", id);
      if (!upload) return undefined;
      await unit.tx.remove("FileUpload", id);
      await announceRemoval(unit, upload);
      return upload.sha256 === null ? upload.place : undefined;
    });
    if (place !== undefined) await this.removePlace(place);
  }

  /** Removes the chunks of a place that is announced for removal, and the announcement. */
  async removePlace(place: string): Promise<void> {
    await this.#chunks.remove(place);
    await this.#parts.store.table("FileRemoval").remove(place);
  }

  /** The content with this hash; `undefined` if there is none. */
  content(sha256: string): Promise<FileContent | undefined> {
    return this.#parts.store.table("FileContent").get(sha256);
  }

  /** A content of a job, or `not_found`: knowing a hash gives nobody a right to it. */
  async ofJob(jobId: string, sha256: string): Promise<{ file: NamedContent; content: FileContent }> {
    const file = await this.#namedBy(jobId, sha256);
    const content = file && (await this.content(sha256));
    if (content) return { file, content };
    throw new ServiceError("not_found", `Job "${jobId}" has no file with the SHA-256 ${sha256}`, {
      detail: "The files of a job are listed at its path, followed by /files.",
    });
  }

  /** How a job names a content: as one of its files, or as a large result of a step. */
  async #namedBy(jobId: string, sha256: string): Promise<NamedContent | undefined> {
    const { store } = this.#parts;
    const id = jobFileId(jobId, sha256);
    const file = await store.table("JobFile").get(id);
    if (file) return file;
    const result = await store.table("JobResult").get(id);
    return result && { ...result, names: [LARGE_RESULT] };
  }

  /** Whether a job names a content, by `jobFileId`. */
  async has(id: string): Promise<boolean> {
    return (await this.#parts.store.table("JobFile").peek(id)) !== undefined;
  }

  /** The files of a job, each name of a content, oldest first. */
  async list(jobId: string): Promise<ListedFile[]> {
    const query = { where: { job_id: jobId }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
    const { items } = await this.#parts.store.table("JobFile").list(query);
    return items
      .flatMap(({ sha256, size, names }) => names.map((name) => ({ ...name, size, sha256 })))
      .sort((a, b) => a.created_at.localeCompare(b.created_at));
  }

  /** A page of the contents that jobs have. */
  page(query: ListQuery): Promise<Page<JobFile>> {
    return this.#parts.store.table("JobFile").list(query);
  }

  /** The bytes of a content, or a range of them, a chunk at a time. */
  async *read(
    { id, place, chunks, size }: Omit<FileContent, "created_at">,
    range?: FileRange,
  ): AsyncGenerator<Buffer, void> {
    const { from, to } = range ?? { from: 0, to: size - 1 };
    let at = 0;
    for (const chunk of chunks) {
      const [, length] = chunk;
      const begin = Math.max(from - at, 0);
      const end = Math.min(to + 1 - at, length);
      at += length;
      if (begin >= end) continue;
      const bytes = await this.#chunks.find(place, chunk);
      if (bytes === undefined) throw await this.#missing(id);
      yield begin === 0 && end === length ? bytes : bytes.subarray(begin, end);
    }
  }

  async #missing(sha256: string): Promise<ServiceError> {
    if ((await this.content(sha256)) === undefined)
      return new ServiceError("not_found", "The file was removed while it was read");
    return storageError(
      `A part of the file with the SHA-256 ${sha256} is missing`,
      "Restore it from a backup; svc store verify names the files.",
    );
  }

  #refuseLarger(size: number): void {
    const { file } = this.#parts.limits;
    if (size <= file) return;
    throw new ServiceError("payload_too_large", `The file is larger than ${file} bytes`, {
      detail: "Send a smaller one, or raise the service's option fileLimit.",
    });
  }

  /** Writes what comes, chunk by chunk; `isKept` says whether each chunk is noted, so that a later request can continue. */
  async #receive(before: FileUpload, source: AsyncIterable<Uint8Array>, isKept: boolean): Promise<Progress> {
    const hash = before.received === 0 ? createHash("sha256") : undefined;
    const added: FileChunk[] = [];
    let upload = before;
    for await (const bytes of inChunks(source)) {
      const received = upload.received + bytes.length;
      this.#refuseLarger(received);
      if (upload.received === 0)
        upload = { ...upload, type: contentType(bytes.subarray(0, 4096), upload.type, upload.name) };
      if (upload.length !== null && received > upload.length) throw hasMore(upload.length);
      hash?.update(bytes);
      const chunk = await this.#chunks.put(upload.place, bytes);
      added.push(chunk);
      const next = { type: upload.type, received, chunks: [...before.chunks, ...added] };
      upload = isKept ? await this.#note(upload, next) : { ...upload, ...next };
    }
    return { upload, hash };
  }

  async #note(
    { id, received }: FileUpload,
    next: Pick<FileUpload, "type" | "received" | "chunks">,
  ): Promise<FileUpload> {
    return this.#parts.ledger.write(async ({ tx, now }) => {
      const current = await tx.get("FileUpload", id);
      if (!current) throw uploadNotFound(id);
      // Another request has added to it meanwhile.
      if (current.received !== received || current.sha256 !== null) throw isElsewhere(current);
      return tx.change("FileUpload", id, (row) => ({ ...row, ...next, touched_at: now }));
    });
  }

  /** Makes what was received a content, unless there is the same one. */
  async #finish(upload: FileUpload, given: Hash | undefined): Promise<FileUpload> {
    const { id, place, received: size, chunks } = upload;
    const type = typeOf(upload);
    if (upload.length !== null && size !== upload.length) throw hasLess(upload);
    const sha256 = (given ?? (await this.#hashOf(upload))).digest("hex");
    let isKnown = false;
    const finished = await this.#parts.ledger.write(async ({ tx, now }) => {
      const current = await tx.get("FileUpload", id);
      if (!current) throw uploadNotFound(id);
      if (current.sha256 !== null) return current;
      isKnown = (await tx.get("FileContent", sha256)) !== undefined;
      if (isKnown) await tx.insert("FileRemoval", { id: place, due_at: now });
      else await tx.insert("FileContent", { id: sha256, place, size, chunks, created_at: now });
      const done = { type, sha256, received: size, chunks: [], touched_at: now };
      return tx.change("FileUpload", id, (row) => ({ ...row, ...done }));
    });
    // What fails here is done by the next sweep.
    if (isKnown) await this.removePlace(place).catch(() => {});
    return finished;
  }

  async #hashOf({ place, chunks }: FileUpload): Promise<Hash> {
    const hash = createHash("sha256");
    for (const chunk of chunks) {
      const bytes = await this.#chunks.find(place, chunk);
      if (bytes === undefined) throw storageError("A part of the upload is missing", "Send the file again.");
      hash.update(bytes);
    }
    return hash;
  }
}

/** The name of a file without folders and control characters, which programs would take for something else. */
export function toFileName(given: string): string {
  const name = given
    .normalize("NFC")
    .replace(/^.*[/\\]/s, "")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed.
    .replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .trim()
    .slice(0, 200);
  return name === "" || name === "." || name === ".." ? "file" : name;
}

/** The type of what was received; nothing says what an empty content is but its name. */
function typeOf({ type, name }: Pick<FileUpload, "type" | "name">): string {
  return type || contentType(Buffer.alloc(0), undefined, name);
}

/** The file that a finished upload is. */
export function fileOf({ id, name, type, received: size, sha256 }: FileUpload): FileValue {
  if (sha256 !== null) return { name, type, size, sha256 };
  throw new ServiceError("invalid_parameters", `The upload "${id}" is not complete`, {
    detail: "Send the rest of it first.",
  });
}

export function uploadNotFound(id: string): ServiceError {
  return new ServiceError("not_found", `There is no upload "${id}"`, {
    detail: "An upload that no job uses is removed a day after it was sent: send the file again.",
  });
}

function tooMany(what: string): ServiceError {
  return new ServiceError("rate_limited", `You would have ${what} that no job uses`, {
    detail:
      "Use them, or remove them with DELETE at their paths: what is not used is removed a day after it was sent.",
  });
}

function isElsewhere({ id, received }: FileUpload): ServiceError {
  return new ServiceError("invalid_request", `The upload "${id}" has ${received} bytes`, {
    status: 409,
    detail: "Continue from there.",
    headers: { "upload-offset": String(received) },
  });
}

function hasMore(length: number): ServiceError {
  return new ServiceError(
    "invalid_request",
    `The file has more than the ${length} bytes that were announced`,
  );
}

function hasLess({ length, received }: FileUpload): ServiceError {
  return new ServiceError(
    "invalid_request",
    `The file has ${received} bytes instead of the ${length} that were announced`,
  );
}
