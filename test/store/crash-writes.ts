import assert from "node:assert/strict";
import { linkFile, unlinkFiles } from "../../src/core/entities/job-files.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Keyring } from "../../src/core/store/encryption/keyring.ts";
import type { Store } from "../../src/core/store/store.ts";
import { bytesOf, FileParts, LIMITS, sha256, textOf, toFile } from "../entities/_files.ts";

export const WORKERS = 8;

/** The value that a worker wrote last. */
export async function readCounter(store: Store, worker: number): Promise<number> {
  return Number((await store.table("Job").get(`job${worker}`))?.name ?? 0);
}

/** One transaction over both tables and the log; every tenth starts over, by removing all of it first. */
export function nextWrite(store: Store, worker: number, value: number): Promise<void> {
  const [jobId, caseId] = [`job${worker}`, `case${worker}`];
  const job = makeJob(jobId, { name: String(value), payload: bodyFor(value) });
  const item = makeCase(caseId, jobId, { name: String(value), description: bodyFor(value + 1) });
  return store.transaction(async (tx) => {
    if (value % 10 === 0 && value > 0) {
      await tx.remove("Job", jobId);
      await tx.remove("Case", caseId);
      await tx.clear("Run", jobId);
    }
    if ((await tx.get("Job", jobId)) === undefined) {
      await tx.insert("Job", job);
      await tx.insert("Case", item);
    } else {
      await tx.change("Job", jobId, () => job);
      await tx.change("Case", caseId, () => item);
    }
    await tx.append("Run", jobId, { type: "mark", mark: "note", message: String(value), at: "" });
  });
}

/** Throws where a worker's entities and entries are not all of one write, whole, between two values. */
export async function checkWorker(
  store: Store,
  worker: number,
  { acknowledged, tried }: { acknowledged: number; tried: number },
): Promise<void> {
  const job = await store.table("Job").get(`job${worker}`);
  const item = await store.table("Case").get(`case${worker}`);
  const value = Number(job?.name ?? 0);
  assert.ok(value >= acknowledged, `worker ${worker}: ${acknowledged} was acknowledged, ${value} is there`);
  assert.ok(value <= tried, `worker ${worker}: ${value} is there, only ${tried} was tried`);
  if (value === 0) return;
  assert.equal(item?.name, job?.name, "the job and its case are of two writes");
  assert.equal(job?.payload, bodyFor(value));
  assert.equal(item?.description, bodyFor(value + 1));
  const messages = (await store.log("Run").read(`job${worker}`)).map(
    ({ entry }) => (entry as { message: string }).message,
  );
  const first = value < 10 ? 1 : value - (value % 10);
  assert.deepEqual(
    messages,
    Array.from({ length: value - first + 1 }, (_, at) => String(first + at)),
  );
}

/** With every third value, a file that a job has from then on; every second of these is removed with the next one. */
export async function nextFile(parts: FileParts, worker: number, value: number): Promise<void> {
  if (value % 3 !== 0) return;
  const text = contentFor(worker, value);
  const upload = await parts.files.add({ name: "a.txt", type: "text/plain" }, bytesOf(text));
  const use = {
    job: { id: `files${worker}-${value}`, workspace: "local", agent: "agent", access: null },
    origin: "step",
    limits: LIMITS,
  } as const;
  await parts.ledger.write(async (unit) => {
    await linkFile(unit, toFile(upload), use);
    await unit.tx.remove("FileUpload", upload.id);
    if (value % 6 === 0) await unlinkFiles(unit, `files${worker}-${value - 3}`);
  });
}

/** Throws where a file is missing that a worker has made; what nothing names is removed by sweeps. */
export async function checkFiles(
  store: Store,
  worker: number,
  { acknowledged, tried, keys }: { acknowledged: number; tried: number; keys: Keyring },
): Promise<void> {
  const { files } = new FileParts(store, undefined, undefined, keys);
  for (let value = 3; value <= acknowledged; value += 3) {
    if (value % 6 === 3 && value + 3 <= tried) continue;
    const text = contentFor(worker, value);
    const { content } = await files.ofJob(`files${worker}-${value}`, sha256(text));
    assert.equal(await textOf(files.read(content)), text);
  }
}

/** Few have several parts, and most are those of other workers, too. */
function contentFor(worker: number, value: number): string {
  return `${value % 9} `.repeat(worker === 0 && value % 15 === 0 ? 2_200_000 : value * 100);
}

function bodyFor(value: number): string {
  return `${value} `.repeat(((value * 7919) % 700) + 1);
}
