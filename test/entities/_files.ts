import { createHash } from "node:crypto";
import { Redactor } from "../../src/core/base/redactor.ts";
import { Files, UPLOAD_KEEP } from "../../src/core/entities/files.ts";
import { Hooks as HookList, type Hooks } from "../../src/core/entities/hooks.ts";
import { Ledger } from "../../src/core/entities/ledger.ts";
import type { FileUpload, FileValue } from "../../src/core/models/file.ts";
import { FileSweep } from "../../src/core/retention/file-sweep.ts";
import type { UnstorageStorage } from "../../src/core/storage/open-storage.ts";
import type { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { FileChunks } from "../../src/core/store/files/file-chunks.ts";
import type { Store } from "../../src/core/store/store.ts";

const GIB = 1024 ** 3;
export const LIMITS = { file: GIB, job: GIB, workspace: GIB };

/** The parts that keep files, over a store, with a clock that is set by hand. */
export class FileParts {
  now = Date.parse("2026-01-31T09:00:00Z");
  readonly store: Store;
  readonly storage: UnstorageStorage;
  readonly ledger: Ledger;
  readonly files: Files;
  readonly sweep: FileSweep;

  constructor(store: Store, storage: UnstorageStorage = store.contents!, limits = LIMITS, keys?: Keyring) {
    this.store = store;
    this.storage = storage;
    const clock = () => new Date(this.now);
    const hooks: Hooks = new HookList(() => {});
    this.ledger = new Ledger(store, hooks, clock, new Redactor());
    this.files = new Files({ store, ledger: this.ledger, storage, limits, keys });
    const log = { info() {}, warn() {}, error() {}, debug() {} };
    this.sweep = new FileSweep({
      ...{ files: this.files, store, storage, clock },
      log: { ...log, with: () => this.#silent } as never,
      startTimer: () => () => {},
    });
  }

  readonly #silent = { info() {}, warn() {}, error() {}, debug() {} };

  /** Lets the time pass after which nothing that is unused is kept, and removes it. */
  async sweepAll(): Promise<void> {
    for (let round = 0; round < 2; round++) {
      this.now += UPLOAD_KEEP + 1;
      await this.sweep.run({ isSearch: true });
    }
  }

  /** Where what is stored and what rows name differ: nothing, unless something is lost or left over. */
  async problems(): Promise<string[]> {
    const problems: string[] = [];
    const all = { limit: Number.POSITIVE_INFINITY };
    const stored = await new FileChunks(this.storage).list();
    const contents = (await this.store.table("FileContent").list(all)).items;
    for (const content of contents) {
      const hash = createHash("sha256");
      try {
        for await (const bytes of this.files.read(content)) hash.update(bytes);
        if (hash.digest("hex") !== content.id) problems.push(`${content.id} has other bytes`);
      } catch (error) {
        problems.push(`${content.id}: ${(error as Error).message}`);
      }
      const named = new Set(content.chunks.map(([id]) => id));
      for (const id of stored.get(content.place) ?? [])
        if (!named.has(id)) problems.push(`${content.place}: ${id} is not named`);
      stored.delete(content.place);
    }
    for (const place of stored.keys()) problems.push(`${place} is not named`);
    const known = new Set(contents.map(({ id }) => id));
    const links = (await this.store.table("JobFile").list(all)).items;
    for (const { id, sha256 } of links) if (!known.has(sha256)) problems.push(`${id} has no content`);
    const results = (await this.store.table("JobResult").list(all)).items;
    for (const { id, sha256 } of results)
      if (!known.has(sha256)) problems.push(`result ${id} has no content`);
    const named = new Set([...links, ...results].map(({ sha256 }) => sha256));
    for (const id of known) if (!named.has(id)) problems.push(`${id} is kept for nobody`);
    const totals = new Map<string, number>();
    const add = (id: string, size: number) => totals.set(id, (totals.get(id) ?? 0) + size);
    for (const { job_id, workspace, size } of links) {
      add(`job.${job_id}`, size);
      add(`workspace.${workspace}`, size);
    }
    for (const { id, bytes } of (await this.store.table("FileTotal").list(all)).items) {
      if ((totals.get(id) ?? 0) !== bytes) problems.push(`${id} counts ${bytes} bytes`);
      totals.delete(id);
    }
    for (const [id, bytes] of totals) if (bytes > 0) problems.push(`${id} does not count ${bytes} bytes`);
    return problems;
  }
}

/** What a finished upload is, for a row. */
export function toFile({ name, type, received: size, sha256 }: FileUpload): FileValue {
  return { name, type, size, sha256: sha256! };
}

export async function* bytesOf(...parts: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array, void> {
  for (const part of parts) yield Buffer.from(part);
}

export function sha256(bytes: string | Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export async function textOf(source: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts).toString();
}
