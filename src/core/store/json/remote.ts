import type { IndexValue, ShippingHealth } from "../store.ts";

/** Where the lines of a store are kept besides its folder. */
export interface Remote {
  /**
   * Resolves once a group of lines is stored there, and counts: the folder is a cache then. Rejects only if nothing may be
   * written from then on.
   */
  append?(group: Uint8Array): Promise<void>;
  /**
   * Notes a group that is on disk and is acknowledged next, and the number of its last write; the bytes are valid during the
   * call. Throws only if nothing may be written from then on.
   */
  stored?(group: Uint8Array, last: number): void;
  /** Called when no more groups follow, while the files are still open. */
  finish?(): Promise<void>;
  /** How far it is behind the folder. */
  shipping?(): ShippingHealth;
  /** Why nothing can be stored at the moment. */
  refusal(): Error | undefined;
  details(): Readonly<Record<string, IndexValue>>;
}
