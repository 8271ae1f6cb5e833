import type { SigningKey } from "../models/signing-key.ts";
import { rowTable } from "./row-table.ts";
import type { TableSpec } from "./store.ts";

declare module "./stored-types.ts" {
  interface Tables {
    SigningKey: SigningKey;
  }
}

export const SIGNING_KEY_TABLE: TableSpec<SigningKey> = rowTable("SigningKey");
