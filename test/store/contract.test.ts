import { describe, it } from "vitest";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";

storeContract({ describe, it, name: "memory store", open: createMemoryStore });
