import { describe, it } from "vitest";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";

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
