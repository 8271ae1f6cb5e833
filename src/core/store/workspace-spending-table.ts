import type { WorkspaceSpending } from "../models/spending.ts";
import { rowTable } from "./row-table.ts";
import type { TableSpec } from "./store.ts";

declare module "./stored-types.ts" {
  interface Tables {
    WorkspaceSpending: WorkspaceSpending;
  }
}

export const WORKSPACE_SPENDING_TABLE: TableSpec<WorkspaceSpending> = rowTable("WorkspaceSpending", {
  index: ({ workspace, month }) => ({ workspace, month }),
  facets: ["workspace"],
});
