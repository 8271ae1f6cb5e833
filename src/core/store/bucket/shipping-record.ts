import { randomBytes } from "node:crypto";
import { readFully, type StoreIo, writeFully } from "../../storage/file-io.ts";
import { SHIPPING } from "../json/incomplete.ts";
import { storageError } from "../storage-error.ts";
import { seal, unseal } from "./sealed.ts";

/** Where in the journal of a storage the content of a folder is. */
export interface Position {
  readonly slot: number;
  /** Number of the last write that is there. */
  readonly last: number;
}

/** What a folder knows of the storage that it is shipped to. */
export interface Shipping {
  /** Random, and part of the epochs of all owners that work in this folder. */
  readonly folder: string;
  /** Id of the store in the storage; none before this folder was its owner. */
  readonly store?: string | undefined;
  /** What the storage has confirmed. */
  readonly shipped: Position;
  /** What was sent to it and perhaps not confirmed, with the checksum of its content. */
  readonly sent?: (Position & { readonly crc: number }) | undefined;
  /**
   * What is not finished: the files of the folder are moved into another one, or are removed and restored from the storage.
   */
  readonly doing?: { readonly aside: string } | "restore" | undefined;
}

const FILE = "record";

/**
 * A file in the data folder that says how far it was shipped. It is on disk before anything is sent, so that a later start
 * can tell its own writes in the storage from those of others.
 */
export class ShippingRecord {
  readonly #io: StoreIo;
  readonly #folder: string;
  #value: Shipping;

  /** Reads it; without one, the folder was never shipped. */
  constructor(io: StoreIo, dataDir: string) {
    this.#io = io;
    this.#folder = `${dataDir}/${SHIPPING}`;
    this.#value = ShippingRecord.isIn(io, dataDir)
      ? this.#read()
      : { folder: randomBytes(8).toString("hex"), shipped: { slot: 0, last: 0 } };
  }

  /** Whether a folder has one. */
  static isIn(io: StoreIo, dataDir: string): boolean {
    if (!io.list(dataDir).includes(SHIPPING)) return false;
    return io.list(`${dataDir}/${SHIPPING}`).includes(FILE);
  }

  get value(): Shipping {
    return this.#value;
  }

  /** Resolves once it is on disk. */
  async write(value: Omit<Shipping, "folder">): Promise<void> {
    const io = this.#io;
    const next = { ...value, folder: this.#value.folder };
    const [path, temporary] = [`${this.#folder}/${FILE}`, `${this.#folder}/${FILE}.tmp`];
    io.makeFolder(this.#folder);
    if (io.list(this.#folder).includes(`${FILE}.tmp`)) io.remove(temporary);
    const file = io.open(temporary, "create");
    try {
      writeFully(io, file, seal(next), 0);
      await io.sync(file);
    } finally {
      io.close(file);
    }
    io.rename(temporary, path);
    await io.syncFolder(this.#folder);
    this.#value = next;
  }

  #read(): Shipping {
    const io = this.#io;
    const file = io.open(`${this.#folder}/${FILE}`, "read");
    let bytes: Buffer;
    try {
      bytes = Buffer.alloc(io.size(file));
      readFully(io, file, bytes, 0);
    } finally {
      io.close(file);
    }
    const head = unseal<Shipping>(bytes)?.head;
    if (head !== undefined) {
      const { folder, store, shipped, sent, doing } = head;
      return { folder, store, shipped, sent, doing };
    }
    throw storageError(
      `${this.#folder}/${FILE} is damaged: how far the data folder was shipped to the storage is unknown`,
      "If no other instance has used the storage since, move the data in the storage away: the service then ships everything. Else move the data folder away: the service then restores what the storage has.",
    );
  }
}

/** Whether an owner of this epoch worked in a folder. */
export function isOwn(epoch: string, folder: string): boolean {
  // With a marker, a number precedes the token.
  return epoch.split("-").at(-1)!.startsWith(folder);
}
