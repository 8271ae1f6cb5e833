import { createHash } from "node:crypto";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import type { Content } from "../content.ts";
import { FILES_ROOT } from "../files/file-chunks.ts";
import type { Place } from "../move.ts";
import type { Keyring } from "./keyring.ts";
import { sealedPlace } from "./sealed-place.ts";

/*
 * What is encrypted again gets another name: a backup ships each part of a file once, and knows it by its name. With the former
 * name, later backups would continue to name parts that only a former key opens, or that are plain text.
 */

/** Tables whose rows say where the parts of a content are. */
const WITH_PLACE = new Set(["FileContent", "FileUpload"]);

/** A place that is copied to another one, where all of it is encrypted with the first key. */
export function sealedSource(place: Place, keys: Keyring): Place {
  const sealed = sealedPlace(place, keys);
  if (keys.isEmpty) return sealed;
  return {
    ...sealed,
    read: (work) => sealed.read((content) => work(renamedContent(content, keys))),
    get contents() {
      return renamedContents(sealed.contents, keys);
    },
  };
}

/** A decrypted content whose files have other names. The names are the same each time: a copy that was interrupted continues. */
export function renamedContent(content: Content, keys: Keyring): Content {
  if (keys.isEmpty) return content;
  return {
    parts: content.parts.map((part) => {
      if (part.isLog || !WITH_PLACE.has(part.name)) return part;
      return {
        ...part,
        async *rows() {
          for await (const batch of part.rows())
            yield batch.map((row) => {
              const entity = JSON.parse(row.body) as { readonly place: string };
              return { ...row, body: JSON.stringify({ ...entity, place: renamed(entity.place, keys) }) };
            });
        },
      };
    }),
  };
}

/** Reads the parts of files under those names. */
export function renamedContents(storage: UnstorageStorage, keys: Keyring): UnstorageStorage {
  if (keys.isEmpty) return storage;
  let known: Map<string, string> | undefined;
  const list = async (): Promise<Map<string, string>> => {
    const all = await storage.getKeys(FILES_ROOT);
    return new Map(
      all.map((key) => {
        const [root, place = "", ...rest] = key.split(":");
        return [[root, renamed(place, keys), ...rest].join(":"), key];
      }),
    );
  };
  return {
    getKeys: async () => {
      known = await list();
      return [...known.keys()];
    },
    getItemRaw: async (key) => {
      known ??= await list();
      const former = known.get(key);
      return former === undefined ? null : storage.getItemRaw(former);
    },
    setItemRaw: () => Promise.reject(new TypeError("A source is not written to")),
    removeItem: () => Promise.reject(new TypeError("A source is not written to")),
    getMount: (key) => storage.getMount(key),
  };
}

function renamed(place: string, { sealsWith = "off" }: Keyring): string {
  return createHash("sha256").update(`${sealsWith} ${place}`).digest("hex").slice(0, 32);
}
