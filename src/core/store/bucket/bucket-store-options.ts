import type { StoreIo } from "../../storage/file-io.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import type { Durability } from "../durability.ts";
import type { Timers } from "../json/timers.ts";
import type { StoreFactory, StoreLogger, TableSpec } from "../store.ts";
import type { Objects } from "./sealed.ts";

export interface BucketStoreOptions {
  readonly tables: readonly TableSpec[];
  /** Folder with the store's cache, which is emptied when it is closed, or with the durability "disk" the store. May be empty. */
  readonly dataDir: string;
  readonly log: StoreLogger;
  readonly objects: Objects;
  /** Keeps the contents of files, beside the journal. */
  readonly contents?: UnstorageStorage | undefined;
  /** @default the clock of this machine */
  readonly timers?: Timers;
  /** Bytes after which a new journal file is started. @default 16 MiB */
  readonly journalBytes?: number;
  /** Groups after which they are replaced by a base. @default 40 */
  readonly groupsPerBase?: number;
  /**
   * Resolves when the store may be taken over; with the folder's lock held. `last` is the token of the last owner on this
   * disk, which is dead. @default immediately
   */
  readonly mayTake?: ((last: string | undefined) => Promise<void>) | undefined;
  /** Throws where a store that shows these marks must not be taken over. */
  readonly admit?: Parameters<StoreFactory>[0]["admit"];
  /** When a write is acknowledged. @default "bucket" */
  readonly durability?: Durability | undefined;
  /** With the durability "disk": the file system; milliseconds that groups wait for others, and their bytes in memory. */
  readonly io?: StoreIo | undefined;
  readonly linger?: number | undefined;
  readonly memory?: number | undefined;
}
