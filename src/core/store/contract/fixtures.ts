import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StoredCase } from "../../models/case.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Store, StoreFactory } from "../store.ts";
import { CORE_TABLES } from "../tables.ts";

/** Declares a test that gets an open store in its own folder. */
export type StoreTest = (title: string, work: (store: Store) => Promise<void>) => void;

/** Part of the statuses, for tests that need several. */
export const STATUSES = ["stopped", "in_progress", "completed", "failed"] as const;

/** A complete job as the service stores it. */
export function makeJob(id: string, fields: Partial<StoredJob> = {}): StoredJob {
  return {
    id,
    name: `Job ${id}`,
    agent_name: "hello",
    status: "in_progress",
    job_context: {
      workspace_id: "w",
      job_id: id,
      started_by: "contract",
      started_at: at(0),
      mission_id: "m",
      mission_name: "mission",
      mission_context: null,
      job_instructions: null,
    },
    payload: null,
    result: null,
    error: null,
    responses: [],
    finished_at: null,
    created_at: at(0),
    updated_at: at(0),
    agent_parameters: null,
    case_count: 0,
    job_fields: {},
    total_cost: 0,
    stop_reason: null,
    agent_version: null,
    code_fingerprint: null,
    schedule: null,
    concurrency_key: null,
    held: null,
    parent: null,
    forked_from: null,
    suspended: null,
    pulled_from: null,
    fingerprint: "",
    encrypted_agent_parameters: null,
    open_questions: 0,
    run_count: 0,
    idempotency_key: null,
    ...fields,
  };
}

/** A complete case as the service stores it. */
export function makeCase(id: string, jobId: string, fields: Partial<StoredCase> = {}): StoredCase {
  return {
    id,
    job_id: jobId,
    ref: "c",
    name: `Case ${id}`,
    account: { workspace_id: "w", api_url: "http://127.0.0.1", api_key: null },
    description: `described ${id}`,
    status: "in_progress",
    update_count: 0,
    last_error: null,
    total_cost: 0,
    final_delivery: null,
    finished_at: null,
    created_at: at(0),
    updated_at: at(0),
    question: null,
    ...fields,
  };
}

/** A run log entry. */
export function makeEntry(message: string): RunEntry {
  return { type: "mark", mark: "note", message, at: at(0) };
}

/** A second of the tests' time, in milliseconds since the epoch. */
export function millis(second: number): number {
  return Date.UTC(2026, 0, 1, 0, 0, second);
}

/** A second of the fixtures as a timestamp. */
export function at(second: number): string {
  return new Date(millis(second)).toISOString();
}

/** Numbers that look random and repeat with the seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Runs work in a folder that is removed at the end. */
export async function inFolder(work: (dataDir: string) => Promise<void>): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), "store-contract-"));
  try {
    await work(dataDir);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Runs work with a store that is closed at the end. */
export async function withStore(
  open: StoreFactory,
  dataDir: string,
  work: (store: Store) => Promise<void>,
): Promise<void> {
  const store = await open({ tables: CORE_TABLES, dataDir, log: SILENT });
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

const SILENT = { info() {}, warn() {}, error() {} };
