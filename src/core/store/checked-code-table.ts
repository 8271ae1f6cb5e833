import { rowTable } from "./row-table.ts";
import type { TableSpec, Tables } from "./store.ts";

declare module "./stored-types.ts" {
  interface Tables {
    /** Which code of an agent its suspended jobs were checked against, by the agent's slug. */
    CheckedCode: {
      readonly id: string;
      /** Fingerprints of all its versions. */
      readonly code: string;
      /** Checks of this code that have started; one that ends its process is not repeated forever. */
      readonly tries: number;
      readonly is_done: boolean;
    };
  }
}

/** What is noted of the code of an agent. */
export type CheckedCode = Tables["CheckedCode"];

export const CHECKED_CODE_TABLE: TableSpec<CheckedCode> = rowTable("CheckedCode");
