import type { StoredCase } from "./case.ts";
import type { StoredJob } from "./job.ts";

/** A job that was deleted and can be restored: it has ended. */
export interface DeletedJob extends StoredJob {
  readonly deleted_at: string;
  /** Who deleted it. */
  readonly deleted_by: string | null;
}

/** A case that was deleted and can be restored: alone, or with its job. */
export interface DeletedCase extends StoredCase {
  /** Of a case that was deleted alone. */
  readonly deleted_at?: string;
  readonly deleted_by?: string | null;
}
