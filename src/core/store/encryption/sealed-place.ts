import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import { counted, differenceOf } from "../content.ts";
import type { Place } from "../move.ts";
import { storageError } from "../storage-error.ts";
import type { Keyring } from "./keyring.ts";
import { openAnyChunk, sealChunk } from "./sealed-chunk.ts";
import { openedContent, sealedContent, withMark } from "./sealed-content.ts";

/**
 * A place whose content is read decrypted, and encrypted with the first key when it is filled: what is copied from one to
 * another is encrypted with that key, whatever it was before. Without keys it is the place itself.
 */
export function sealedPlace(place: Place, keys: Keyring): Place {
  if (keys.isEmpty) return place;
  return {
    name: place.name,
    lock: () => place.lock(),
    release: () => place.release(),
    state: () => place.state(),
    setMark: (mark) => place.setMark(mark),
    clear: (move) => place.clear(move),
    prepare: async () => place.prepare?.(),
    read: (work) => place.read((content) => work(withMark(openedContent(content, keys), keys))),
    fill: async (content, mark, check) => {
      const given = counted(withMark(content, keys));
      const stored = counted(sealedContent(given.content, keys));
      await place.fill(stored.content, mark, (sums) => {
        const difference = differenceOf(stored.sums, sums);
        if (difference !== undefined)
          throw storageError(`The copy in ${place.name} is wrong (${difference})`, "Try again.");
        check(given.sums);
      });
    },
    get contents() {
      return sealedContents(place.contents, keys);
    },
  };
}

/** A storage whose parts of files are read decrypted, and encrypted when they are written. */
export function sealedContents(storage: UnstorageStorage, keys: Keyring): UnstorageStorage {
  return {
    getItemRaw: async (key) => {
      const stored = toBytes(await storage.getItemRaw(key));
      return stored === undefined ? null : openAnyChunk(keys, key, stored);
    },
    setItemRaw: (key, bytes) => storage.setItemRaw(key, sealChunk(keys, key, bytes)),
    removeItem: (key) => storage.removeItem(key),
    getKeys: (base) => storage.getKeys(base),
    getMount: (key) => storage.getMount(key),
  };
}
