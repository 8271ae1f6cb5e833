import type { IndexValue } from "../store.ts";

/** Where the lines of a store are kept besides its folder, which then is a cache. */
export interface Remote {
  /** Resolves once a group of lines is stored there, and counts. Rejects only if nothing may be written from then on. */
  append(group: Uint8Array): Promise<void>;
  /** Why nothing can be stored at the moment. */
  refusal(): Error | undefined;
  details(): Readonly<Record<string, IndexValue>>;
}
