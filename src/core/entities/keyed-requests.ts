import { hash } from "node:crypto";
import { ServiceError } from "../base/errors.ts";
import { inOrder } from "../base/in-order.ts";
import type { AnsweredQuestion, KeyedRequest, ShownState } from "../models/keyed-request.ts";
import type { Store, Transaction } from "../store/store.ts";
import type { Unit } from "./ledger.ts";

/*
 * The row of a key decides whether a request is a repetition: it is stored together with what the request does. What has
 * happened to the job since then changes nothing. Of two requests with one key that reach several instances at the same
 * time, one has to run again, and finds the row of the other.
 */

/** What a request to a job asks for, and its key. */
export interface GivenKey {
  readonly key: string;
  /** JSON. */
  readonly content: unknown;
  /** Number of the last entry of the job's log when it came. */
  readonly after: number;
}

/** What a request with this key has done, inside a unit; throws where it asked for something else. */
export async function keptRequest(
  tx: Transaction,
  jobId: string,
  given: GivenKey,
): Promise<KeyedRequest | undefined> {
  return sameKeyed(await tx.get("KeyedRequest", idOf(jobId, given.key)), given);
}

/** The same outside of a unit. */
export async function findKeptRequest(
  store: Store,
  jobId: string,
  given: Omit<GivenKey, "after">,
): Promise<KeyedRequest | undefined> {
  return sameKeyed(await requestWithKey(store, jobId, given.key), given);
}

/** What a request with this key has done, whatever it asked for. */
export async function requestWithKey(
  store: Store,
  jobId: string,
  key: string,
): Promise<KeyedRequest | undefined> {
  return store.table("KeyedRequest").peek(idOf(jobId, key));
}

/** Stores inside a unit what a request with a key does in it. */
export function keepRequest(
  { tx, now }: Pick<Unit, "tx" | "now">,
  job_id: string,
  { key, content, after }: GivenKey,
  answered?: AnsweredQuestion,
): Promise<void> {
  return tx.insert("KeyedRequest", {
    ...{ id: idOf(job_id, key), job_id, at: now, content: hashOf(content), after },
    ...(answered && { answered }),
  });
}

/** Stores inside a unit how the response to a request shows its job, at its start or its end; gives the row of the first. */
export async function keepShown<K extends "began" | "shown">(
  { tx, now }: Pick<Unit, "tx" | "now">,
  job_id: string,
  { key, after, as, state }: Pick<GivenKey, "key" | "after"> & { readonly as: K; readonly state: ShownState },
): Promise<KeyedRequest & { readonly [P in K]: ShownState }> {
  type Row = KeyedRequest & { readonly [P in K]: ShownState };
  const id = idOf(job_id, key);
  const before = await tx.get("KeyedRequest", id);
  if (before?.[as]) return before as Row;
  const row = { id, job_id, at: now, content: hashOf(null), after, ...before, [as]: state } as Row;
  if (before) await tx.change("KeyedRequest", id, () => row);
  // A job that was removed meanwhile keeps nothing.
  else if (await tx.get("Job", job_id)) await tx.insert("KeyedRequest", row);
  return row;
}

/**
 * Whether a request with a key has come before, inside the unit that does what it asks for; keeps the key where it has
 * not. Without a key, each request is another one.
 */
export async function isRepeated(
  unit: Pick<Unit, "tx" | "now">,
  jobId: string,
  given: GivenKey | undefined,
): Promise<boolean> {
  if (!given) return false;
  if (await keptRequest(unit.tx, jobId, given)) return true;
  await keepRequest(unit, jobId, given);
  return false;
}

/** Removes inside a unit what is kept of the requests to a job that is removed, and of who was shown its questions. */
export async function forgetRequests({ tx }: Unit, jobId: string): Promise<void> {
  for (const id of await tx.ids("KeyedRequest", "job_id", jobId)) await tx.remove("KeyedRequest", id);
  for (const id of await tx.ids("ShownQuestion", "job_id", jobId)) await tx.remove("ShownQuestion", id);
}

function sameKeyed(
  before: KeyedRequest | undefined,
  { content }: Pick<GivenKey, "content">,
): KeyedRequest | undefined {
  if (!before || before.content === hashOf(content)) return before;
  const message = `A request to job "${before.job_id}" with this key already exists with different content`;
  throw new ServiceError("invalid_request", message, {
    status: 409,
    detail: "Send it with a new key, or repeat the original request unchanged.",
  });
}

function idOf(jobId: string, key: string): string {
  return hash("sha256", `${jobId}\n${key}`, "base64url");
}

function hashOf(content: unknown): string {
  return hash("sha256", JSON.stringify(inOrder(content)), "base64url");
}
