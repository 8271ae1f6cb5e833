// @long
import { describe, it } from "vitest";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { openInSchema } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";

const keys = new Keyring(["mZsVGFxUKbr0Ie1Tz0eCk8Z4p0Ct1yC0mJ3F8mY2wqA="]);

storeContract({ describe, it, name: "encrypted memory store", open: sealStore(createMemoryStore, keys) });
storeContract({
  describe,
  it,
  name: "encrypted JSON store with tiny files",
  open: sealStore(
    (context) => openJsonStoreWith({ ...context, journalBytes: 4096, reserveBytes: 4096 }),
    keys,
  ),
  persistent: true,
});

// Its own contract is another file: this one is for what seals and opens.
const [name] = shareOf(["encrypted Postgres store", undefined, undefined, undefined], 4);
if (name !== undefined)
  requirement("postgres").describe("Postgres", () => {
    storeContract({
      describe,
      it,
      name,
      open: sealStore(openInSchema, keys),
      persistent: true,
      shared: true,
    });
  });
