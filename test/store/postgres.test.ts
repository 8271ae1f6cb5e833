import { describe, it } from "vitest";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { openInSchema } from "../_postgres.ts";
import { requirement } from "../_require.ts";

requirement("postgres").describe("Postgres", () => {
  storeContract({ describe, it, name: "Postgres store", open: openInSchema, persistent: true, shared: true });
});
