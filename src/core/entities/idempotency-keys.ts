import { hash } from "node:crypto";
import type { StoredJob } from "../models/job.ts";
import type { Transaction } from "../store/store.ts";
import { refuseDeleted } from "./refuse-deleted.ts";

/*
 * The row of a key is what decides between requests that reach several instances at the same time: of two
 * transactions that store it one has to run again, and finds the job of the other.
 */

/** A key may be long, or a secret. */
function idOf(key: string): string {
  return hash("sha256", key, "base64url");
}

/** The job that a request with this key has created, inside a unit. Jobs of version 0.1.0 have no row. */
export async function jobOfKey(tx: Transaction, key: string): Promise<StoredJob | undefined> {
  const row = await tx.get("IdempotencyKey", idOf(key));
  const job = row && (await tx.get("Job", row.job_id));
  if (row && !job) await refuseDeleted(tx, row.job_id);
  return job;
}

/** Gives a key to a job inside a unit. */
export async function takeKey(tx: Transaction, key: string, job_id: string): Promise<void> {
  const id = idOf(key);
  // The job that it was of may have been removed by a version that has no such rows.
  await tx.remove("IdempotencyKey", id);
  await tx.insert("IdempotencyKey", { id, job_id });
}

/** Frees the key of a job inside a unit. */
export async function freeKey(tx: Transaction, { id, idempotency_key }: StoredJob): Promise<void> {
  if (idempotency_key === null) return;
  const row = await tx.get("IdempotencyKey", idOf(idempotency_key));
  if (row?.job_id === id) await tx.remove("IdempotencyKey", row.id);
}
