import type { KeyMark } from "../../models/own-rows.ts";
import type { Store } from "../store.ts";
import { type Keyring, missingKey } from "./keyring.ts";

/** How the id of a mark begins that says which key values of the store may be sealed with. */
const PREFIX = "encryption:";

/** The mark of a key that a store has values of. */
export function markOf(id: string): KeyMark {
  return { id: PREFIX + id, salt: "", hash: id };
}

/** The id of the key that a mark is of; `undefined` for marks of other keys. */
export function keyOfMark({ id }: { readonly id: string }): string | undefined {
  return id.startsWith(PREFIX) ? id.slice(PREFIX.length) : undefined;
}

/** Rejects where a store may have values of a key that is missing. */
export async function refuseUnknownKeys(store: Store, keys: Keyring): Promise<void> {
  for (const id of await store.table("KeyMark").ids({ limit: Number.POSITIVE_INFINITY })) {
    const key = keyOfMark({ id });
    if (key !== undefined && !keys.has(key)) throw missingKey("The store", key);
  }
}
