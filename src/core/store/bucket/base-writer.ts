import { crc32 } from "node:zlib";
import type { PinnedFile } from "../json/take-snapshot.ts";
import type { StoreLogger } from "../store.ts";
import {
  type Base,
  type BaseFile,
  baseKey,
  type Chain,
  inParallel,
  logKeys,
  sealBase,
  type Taken,
} from "./chain.ts";
import { type Objects, seal } from "./sealed.ts";

/** Groups after which they are replaced by a base: a start reads each of them with a request. */
const MOST_GROUPS = 40;
/** How many more may follow while that base is written: the next one waits for it. */
const MOST_MEANWHILE = 24;
/** Milliseconds that a base gets while the store closes. */
const LAST_CHANCE = 1000;
const MOST_BYTES = 4 * 1024 * 1024;
/** Bytes of an object. */
const PART = 8 * 1024 * 1024;

export interface BaseWriterOptions {
  readonly objects: Objects;
  readonly chain: Chain;
  readonly log: StoreLogger;
  /** The files as of the end of some slot. */
  readonly pin: () => Promise<Pinned>;
  /** What the owner has found. */
  readonly taken: Taken;
  /** Whether the files are those that were found; else those of the same name may have another content. */
  readonly isRestored: boolean;
  /** Groups after which they are replaced. @default 40 */
  readonly groups?: number | undefined;
}

export interface Pinned {
  readonly slot: number;
  readonly files: readonly PinnedFile[];
  /** As in a base. */
  readonly at?: string | undefined;
}

/**
 * Replaces groups in the bucket by bases, which have the files of the store as of a slot. Objects are removed once a base
 * replaces them and a group was acknowledged after it: then the next owner finds that base.
 */
export class BaseWriter {
  readonly #options: BaseWriterOptions;
  /** Parts of files that are in the bucket, by the file's name. */
  #parts: ReadonlyMap<string, BaseFile["parts"]>;
  /** Files of `#parts` whose content was not compared yet. */
  readonly #unknown: Set<string>;
  /** All objects in the bucket that a next base may replace. */
  readonly #keys: Set<string>;
  #groups: number;
  #bytes = 0;
  #count = 0;
  /** Groups that the base which is being written replaces. */
  #replaced = 0;
  #running: Promise<void> | undefined;
  /** Whether the base that is being written has its files: it does not wait for a group. */
  #isPinned = false;
  #obsolete: string[] = [];
  #removing: Promise<void> | undefined;
  #isReplacing = false;
  #closed = false;

  constructor(options: BaseWriterOptions) {
    this.#options = options;
    const { base, groups, keys } = options.taken;
    this.#parts = new Map(base?.files.map(({ name, parts }) => [name, parts]));
    this.#unknown = new Set(options.isRestored ? [] : this.#parts.keys());
    this.#keys = new Set(keys.filter((key) => /^(log|base|part|owners):/.test(key)));
    this.#groups = groups.length;
  }

  /** Notes an acknowledged group. */
  note(bytes: number): void {
    this.#keys.add(this.#options.chain.keyOf(this.#options.chain.slot));
    this.#groups++;
    this.#bytes += bytes;
    if (this.#closed) return;
    // This group was acknowledged after the base.
    if (this.#obsolete.length > 0) this.#remove(this.#obsolete.splice(0));
    const isDue = this.#groups >= (this.#options.groups ?? MOST_GROUPS) || this.#bytes >= MOST_BYTES;
    if (isDue && this.#running === undefined && !this.#isReplacing) this.#begin();
  }

  /** What the next group has to wait for, so that there are never more than a start can read soon. */
  room(): Promise<void> | undefined {
    const most = (this.#options.groups ?? MOST_GROUPS) + MOST_MEANWHILE;
    return this.#isPinned && this.#replaced + this.#groups >= most ? this.#running : undefined;
  }

  /** Resolves once nothing is under way, or after a second: nothing depends on a base, and one without all parts is none. */
  async close(): Promise<void> {
    this.#closed = true;
    const given = new Promise<void>((resolve) => void setTimeout(resolve, LAST_CHANCE).unref());
    await Promise.race([given, Promise.all([this.#running, this.#removing])]);
  }

  #begin(): void {
    const groups = this.#groups;
    const bytes = this.#bytes;
    this.#groups = 0;
    this.#bytes = 0;
    this.#replaced = groups;
    this.#running = this.#write()
      .catch((error: unknown) => {
        // The groups stay, and are replaced by a later base.
        this.#groups += groups;
        this.#bytes += bytes;
        if (!this.#closed) this.#warn(error);
      })
      .finally(() => {
        this.#running = undefined;
        this.#isPinned = false;
        this.#replaced = 0;
      });
  }

  /**
   * Makes everything before outdated by files that have more than the journal: `append` adds the base to the journal, so
   * that it counts only while this is the owner.
   */
  async replace(pinned: Pinned, append: (base: Base) => Promise<void>): Promise<void> {
    this.#isReplacing = true;
    try {
      await this.#running;
      const base = await this.#upload(pinned);
      await append(base);
      this.#groups = 0;
      this.#bytes = 0;
      this.#keep(base);
      // If that fails, the next owner finds the one in the journal, until the next base.
      await this.#publish(base).catch((error: unknown) => this.#warn(error));
    } finally {
      this.#isReplacing = false;
    }
  }

  async #write(): Promise<void> {
    const pinned = await this.#options.pin();
    this.#isPinned = true;
    const giveUp = () => this.#closed;
    await this.#publish(await this.#upload(pinned, giveUp));
  }

  async #publish(base: Base): Promise<void> {
    const { objects, chain } = this.#options;
    const key = baseKey(base.slot, chain.epoch);
    await objects.put(key, sealBase(base, chain.epoch));
    this.#keep(base);
    this.#obsolete = this.#replacedBy(base.slot, key);
    this.#keys.add(key);
  }

  #keep({ files }: Base): void {
    this.#parts = new Map(files.map(({ name, parts }) => [name, parts]));
    this.#unknown.clear();
  }

  async #upload({ slot, files: pinned, at }: Pinned, giveUp = () => false): Promise<Base> {
    const { kept, store } = this.#options.taken;
    try {
      const files: BaseFile[] = [];
      for (const file of pinned)
        files.push({ name: file.name, size: file.size, parts: await this.#uploadFile(file, giveUp) });
      return { slot, files, kept, store, at };
    } finally {
      for (const { release } of pinned) release();
    }
  }

  /** Stores what is new of a file. Small parts before it are joined with it, so that there are never many. */
  async #uploadFile({ name, size, file }: PinnedFile, giveUp: () => boolean): Promise<BaseFile["parts"]> {
    const known = this.#parts.get(name) ?? [];
    const parts = this.#unknown.has(name) ? await equalParts(known, { size, file }) : [...known];
    let at = parts.reduce((sum, part) => sum + part.size, 0);
    if (at === size) return parts;
    for (let last = parts.at(-1); last !== undefined && last.size < 2 * (size - at); last = parts.at(-1)) {
      if (size - at + last.size > PART) break;
      at -= last.size;
      parts.pop();
    }
    const { objects, chain } = this.#options;
    while (at < size) {
      if (giveUp()) throw new Error("the store closes");
      const content = Buffer.allocUnsafe(Math.min(PART, size - at));
      const count = await file.read(content, at);
      if (count < content.length) throw new Error(`${name} is shorter than it was`);
      const key = `part:${chain.epoch}-${this.#count++}`;
      // Noted first: if the request fails, the object may be there anyway.
      this.#keys.add(key);
      await objects.put(key, seal({ kind: "part", name, at }, content));
      parts.push({ key, size: content.length, crc: crc32(content) });
      at += content.length;
    }
    return parts;
  }

  #warn(error: unknown): void {
    const { log } = this.#options;
    log.warn("Store: groups in the bucket could not be merged; retried later", { error: String(error) });
  }

  #replacedBy(slot: number, base: string): string[] {
    const { chain, taken } = this.#options;
    const needed = new Set([...this.#parts.values()].flat().map(({ key }) => key));
    const replaced = logKeys([...this.#keys]).filter(
      (entry) => entry.slot <= slot && !taken.kept.includes(entry.slot),
    );
    const groups = new Set(replaced.map((entry) => entry.key));
    return [...this.#keys].filter((key) => {
      if (key.startsWith("log:")) return groups.has(key);
      if (key.startsWith("owners:")) return key < `owners:${chain.epoch}`;
      return key !== base && !needed.has(key);
    });
  }

  #remove(keys: readonly string[]): void {
    const { objects, log } = this.#options;
    const remove = async (key: string) => {
      try {
        await objects.remove(key);
        this.#keys.delete(key);
      } catch (error) {
        // The next base finds it again.
        log.warn("Store: an outdated object in the bucket could not be removed", {
          key,
          error: String(error),
        });
      }
    };
    this.#removing = (this.#removing ?? Promise.resolve())
      .then(() => inParallel(keys, remove))
      .then(() => {});
  }
}

/** The parts at the beginning that have what the file has. */
async function equalParts(
  parts: BaseFile["parts"],
  { size, file }: Pick<PinnedFile, "size" | "file">,
): Promise<BaseFile["parts"][number][]> {
  const equal: BaseFile["parts"][number][] = [];
  let at = 0;
  for (const part of parts) {
    if (part.crc === undefined || at + part.size > size) break;
    const content = Buffer.allocUnsafe(part.size);
    const count = await file.read(content, at);
    if (count < part.size || crc32(content) !== part.crc) break;
    equal.push(part);
    at += part.size;
  }
  return equal;
}
