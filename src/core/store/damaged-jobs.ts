import type { DamagedJob } from "../models/own-rows.ts";
import { rowTable } from "./row-table.ts";
import type { TableSpec } from "./store.ts";

/** Written by a repair; the next start ends each of these jobs and removes its row. */
export const DAMAGED_JOB_TABLE: TableSpec<DamagedJob> = rowTable("DamagedJob");

/** The owner of an entity or log key: a job, or a case of one; `undefined` if it is neither. */
export function ownerOf(
  table: string,
  id: string,
): { readonly job: string } | { readonly case: string } | undefined {
  if (table === "Job" || table === "Run") return { job: id };
  if (table === "Case" || table === "CaseUpdate") return { case: id };
  return undefined;
}
