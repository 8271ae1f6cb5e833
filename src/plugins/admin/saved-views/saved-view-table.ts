import { rowTable } from "../../../core/store/row-table.ts";
import type { TableSpec } from "../../../core/store/store.ts";

/** Filters of the list of jobs under a name, for everybody. */
export interface SavedView {
  /** Made of the name: a view that is saved under the same name replaces it. */
  readonly id: string;
  readonly name: string;
  /** Filters and order, as in the address of the list. */
  readonly query: string;
  /** Who saved it. */
  readonly by: string;
  readonly saved_at: string;
}

declare module "../../../core/store/stored-types.ts" {
  interface Tables {
    SavedView: SavedView;
  }
}

export const SAVED_VIEW_TABLE: TableSpec<SavedView> = rowTable("SavedView");
