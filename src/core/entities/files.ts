import { createHash, type Hash, randomUUID } from "node:crypto";
import { ServiceError } from "../base/errors.ts";
import { KeyedMutex } from "../base/keyed-mutex.ts";
import type {
  FileChunk,
  FileContent,
  FileLimits,
  FileUpload,
  FileValue,
  JobFile,
  ListedFile,
} from "../models/file.ts";
import { jobFileId } from "../models/file.ts";
import type { UnstorageStorage } from "../storage/open-storage.ts";
import type { Keyring } from "../store/encryption/keyring.ts";
import { contentType } from "../store/files/content-type.ts";
import { FileChunks, inChunks, newPlace } from "../store/files/file-chunks.ts";
import { storageError } from "../store/storage-error.ts";
import type { ListQuery, Page, Store } from "../store/store.ts";
import { announceRemoval } from "./job-files.ts";
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
  /** The job whose step makes it. */
  readonly jobId?: string | null;
}

/** Bytes of a content, both ends included. */
export interface FileRange {
  readonly from: number;
  readonly to: number;
}

/** Uploads that no job uses, which a caller who sees only a part may have at the same time. */
const MOST_UNUSED = 1000;

/** The state of the hash of an upload that one request sends whole. */
interface Progress {
  readonly upload: FileUpload;
  readonly hash: Hash | undefined;
}

/**
 * The contents of files. One is written to a place of its own while a row for its upload exists, and counts once a
 * transaction names that place as the place of a content; where the content is known by then, the place is removed. What
 * nothing names any longer is removed by `FileSweep`, whatever a crash has left.
 */
export class Files {
  readonly #parts: FilesParts;
  readonly #chunks: FileChunks;
  /** Of one sender, one upload after another begins and is finished: each counts those before it. */
  readonly #senders = new KeyedMutex();

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
  async begin({
    name: given,
    type = "",
    length = null,
    access = null,
    jobId = null,
  }: NewFile): Promise<FileUpload> {
    const name = toFileName(given);
    if (length !== null) this.#refuseLarger(length);
    const id = randomUUID();
    return this.#counted({ id, access }, length ?? 0, () =>
      this.#parts.ledger.write(async ({ tx, now }) => {
        const upload: FileUpload = {
          ...{ id, place: newPlace(), name, type, length, access, job_id: jobId },
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
  async ofJob(jobId: string, sha256: string): Promise<{ file: JobFile; content: FileContent }> {
    const file = await this.#parts.store.table("JobFile").get(jobFileId(jobId, sha256));
    const content = file && (await this.content(sha256));
    if (content) return { file, content };
    throw new ServiceError("not_found", `Job "${jobId}" has no file with the SHA-256 ${sha256}`, {
      detail: "The files of a job are listed at its path, followed by /files.",
    });
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
  async *read({ id, place, chunks, size }: FileContent, range?: FileRange): AsyncGenerator<Buffer, void> {
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
    const type = upload.type || contentType(Buffer.alloc(0), undefined, upload.name);
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
