import { describe, it } from "vitest";
import { openJsonStore, openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";

storeContract({ describe, it, name: "memory store", open: createMemoryStore });
storeContract({ describe, it, name: "JSON store", open: openJsonStore, persistent: true });
storeContract({
  describe,
  it,
  name: "JSON store with tiny files",
  open: (context) => openJsonStoreWith({ ...context, journalBytes: 4096, reserveBytes: 4096 }),
  persistent: true,
});
