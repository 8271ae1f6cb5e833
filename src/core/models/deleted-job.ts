import type { StoredJob } from "./job.ts";

/** A job that was deleted and can be restored: it has ended. */
export interface DeletedJob extends StoredJob {
  readonly deleted_at: string;
  /** Who deleted it. */
  readonly deleted_by: string | null;
}
