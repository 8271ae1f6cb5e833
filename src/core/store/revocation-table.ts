import type { Revocation } from "../models/revocation.ts";
import { rowTable } from "./row-table.ts";
import type { TableSpec } from "./store.ts";

declare module "./stored-types.ts" {
  interface Tables {
    Revocation: Revocation;
  }
}

export const REVOCATION_TABLE: TableSpec<Revocation> = rowTable("Revocation", {
  index: ({ until }) => ({ until }),
  sorted: ["until"],
});
