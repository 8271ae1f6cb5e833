// @alone
// @long
// @losses
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { FileValue } from "agent-control-service";
import { expect, test } from "vitest";
import { s3Driver } from "../../src/core/storage/s3.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { Keyring, NO_KEYS } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import type { StoreFactory } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { beginSvc, project, type Running } from "../cli/_svc.ts";
import { FileParts, LIMITS } from "../entities/_files.ts";
import { startS3 } from "../storage/s3-server.ts";
import { newKey } from "../store/_key.ts";
import { jobContext } from "./_jobs.ts";

/** For each store. */
const ROUNDS = Math.ceil(Number(process.env.SVC_KILL_ROUNDS ?? 15) / 3);
const CLIENTS = 3;
const KEY = "a-key-of-the-files-tests";
const CONTROLLER = `
import { createHash } from "node:crypto";
import { createServer, defineAgent, file } from "agent-control-service";
import * as v from "valibot";

async function* lines(text, count) { for (let n = 0; n < count; n++) yield Buffer.from(text.repeat(5000)); }
const maker = defineAgent({
  name: "Maker", version: "1.0.0",
  methods: { job_start: { fields: v.object({ contract: file() }), run: async ({ job, fields }) => {
    const item = await job.openCase({ id: job.id + "-case", name: "Report" });
    const sha256 = await job.step("read", async () => createHash("sha256").update(await job.open(fields.contract).bytes()).digest("hex"));
    const made = await item.step("make", async ({ file }) => ({
      large: await file("large.txt", lines(job.id + "\\n", 40)),
      same: await file("same.txt", "all jobs have this one"),
    }));
    const own = await job.file("own.txt", "of " + job.id);
    // Too large for the record: of each job its own, and one that all jobs have.
    const large = await job.step("large", () => ({ id: job.id, text: "x".repeat(300_000) }));
    const shared = await item.step("shared", () => ["y".repeat(400_000)]);
    await item.artifact("report", made.large, { title: "Report" });
    await item.close({ own });
    return { sha256, large: large.id + large.text.length, shared: shared[0].length, files: [made.large, made.same, own] };
  } } },
});
export default createServer({ port: 0, agents: [maker] });
`;

/** The service in a process of its own, whatever it keeps its store in. */
class Killed {
  readonly #folder: string;
  readonly #env: Record<string, string>;
  #running: Running | undefined;
  #url = "";

  constructor(folder: string, env: Record<string, string>) {
    this.#folder = folder;
    this.#env = env;
  }

  async start(): Promise<void> {
    const env = { ...this.#env, SERVICE_PORT: "0", SERVICE_API_KEY: KEY };
    this.#running = beginSvc(["start", "controller.mjs"], { cwd: this.#folder, env });
    [this.#url] = await this.#running.prints(/http:\/\/127\.0\.0\.1:\d+/);
  }

  async end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    this.#running!.process.kill(signal);
    await this.#running!.finished;
  }

  /** Sends a request until it is answered, by whichever process. */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    for (;;) {
      try {
        const response = await fetch(`${this.#url}${path}`, {
          ...init,
          headers: { "x-api-key": KEY, ...(init.headers as object) },
        });
        const body = await response.arrayBuffer();
        if (response.status < 500) return new Response(response.status === 204 ? null : body, response);
      } catch {
        // It was killed.
      }
      await delay(20);
    }
  }
}

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

/** Uploads a content in one request, or in parts that continue where the process was killed. */
async function upload(service: Killed, content: Buffer, inParts: boolean): Promise<string> {
  const path = "/files?name=a.bin";
  for (;;) {
    if (!inParts) {
      const sent = await service.send(path, { method: "POST", body: content as never });
      return ((await sent.json()) as { upload: string }).upload;
    }
    const tus = { "tus-resumable": "1.0.0" };
    const headers = { ...tus, "upload-length": String(content.length) };
    const { upload: id } = (await (await service.send(path, { method: "POST", headers })).json()) as {
      upload: string;
    };
    for (let offset = 0; offset < content.length; ) {
      const part = content.subarray(offset, offset + 700_000);
      await service.send(`/files/${id}`, {
        ...{ method: "PATCH", body: part as never },
        headers: {
          ...{ ...tus, "content-type": "application/offset+octet-stream" },
          "upload-offset": String(offset),
        },
      });
      const head = await service.send(`/files/${id}`, { method: "HEAD" });
      // What was acknowledged is there.
      expect(head.status).toBe(200);
      offset = Number(head.headers.get("upload-offset"));
    }
    return id;
  }
}

/** What a job returns. */
interface Made {
  readonly sha256: string;
  readonly large: string;
  readonly shared: number;
  readonly files: FileValue[];
}

/** What clients do while the service is killed; then what is left is compared with what they have heard. */
async function survive(
  env: Record<string, string>,
  open: (folder: string) => StoreFactory,
  keys: Keyring = NO_KEYS,
): Promise<void> {
  const folder = await project({ "controller.mjs": CONTROLLER });
  const service = new Killed(folder, env);
  await service.start();
  let isOver = false;
  const kept = new Map<string, FileValue[]>();
  const unused: { readonly id: string; readonly sha256: string }[] = [];
  let removed = 0;
  const client = async (number: number): Promise<void> => {
    for (let turn = 0; !isOver || turn < 2; turn++) {
      const content = randomBytes([10, 300_000, 4_300_000][turn % 3]!);
      const id = await upload(service, content, turn % 2 === number % 2);
      const other = randomBytes(1000);
      unused.push({ id: await upload(service, other, false), sha256: sha256(other) });
      const job = `job-${number}-${turn}`;
      const body = JSON.stringify({
        job_context: jobContext(job),
        job_fields: { contract: { upload: id } },
      });
      const headers = { "content-type": "application/json" };
      const started = await service.send("/agents/maker/jobs", { method: "POST", headers, body });
      expect(started.status, await started.clone().text()).toBe(202);
      let shown: { status: string; payload: Made; message: string };
      do {
        await delay(10);
        shown = (await (await service.send(`/jobs/${job}`)).json()) as typeof shown;
        // Killed each time that it ran, it is held: the agent asks nothing itself.
        if (shown.status === "awaiting")
          await service.send(`/jobs/${job}/retry`, { method: "POST", headers, body: "{}" });
      } while (["stopped", "in_progress", "awaiting"].includes(shown.status));
      expect([shown.status, shown.payload?.sha256], shown.message).toEqual(["completed", sha256(content)]);
      const { files, large, shared } = shown.payload;
      expect([large, shared]).toEqual([`${job}300000`, 400_000]);
      for (const { sha256: wanted, name } of files) {
        const got = await service.send(`/jobs/${job}/files/${wanted}`);
        expect(sha256(Buffer.from(await got.arrayBuffer())), name).toBe(wanted);
      }
      if (turn % 3 === 1) {
        await service.send(`/admin/api/jobs/${job}?permanent=true`, { method: "DELETE" });
        removed++;
      } else kept.set(job, [...files, { name: "a.bin", type: "", size: 0, sha256: sha256(content) }]);
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  clients.catch(() => {});
  for (let round = 0; round < ROUNDS; round++) {
    await Promise.race([delay(100 + ((round * 377) % 900)), clients]);
    await service.end("SIGKILL");
    await service.start();
  }
  isOver = true;
  await clients;
  await service.end("SIGKILL");

  const log = { info() {}, warn() {}, error() {} };
  const store = await sealStore(
    open(folder),
    keys,
  )({ tables: CORE_TABLES, dataDir: join(folder, "data"), log });
  try {
    const parts = new FileParts(store, store.contents!, LIMITS, keys);
    parts.now = Date.now();
    for (const [job, files] of kept)
      for (const { sha256: wanted } of files) {
        const { content } = await parts.files.ofJob(job, wanted);
        const hash = createHash("sha256");
        for await (const bytes of parts.files.read(content)) hash.update(bytes);
        expect(hash.digest("hex")).toBe(wanted);
      }
    for (const { id, sha256: wanted } of unused) expect((await parts.files.find(id)).sha256).toBe(wanted);
    await parts.sweepAll();
    expect(await parts.problems()).toEqual([]);
    const results = await store.table("JobResult").list({ limit: Number.POSITIVE_INFINITY });
    expect(new Set(results.items.map(({ job_id }) => job_id))).toEqual(new Set(kept.keys()));
    expect(results.items).toHaveLength(2 * kept.size);
    console.log(
      `${ROUNDS} kills: ${kept.size} jobs with files kept, ${removed} removed, ${unused.length} unused`,
    );
    expect(kept.size).toBeGreaterThan(0);
  } finally {
    await store.close();
  }
}

const title = `${ROUNDS} kills lose no file, leave none dangling, and nothing is left over after a sweep`;

test(`${title}: a folder`, () => survive({}, () => openJsonStore), 600_000);

test(`${title}: an encrypted folder`, () => {
  const key = newKey();
  return survive({ SERVICE_ENCRYPTION_KEYS: key }, () => openJsonStore, new Keyring([key]));
}, 600_000);

test(`${title}: a bucket`, async () => {
  const s3 = await startS3(["agents"]);
  const keys = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
  const SERVICE_STORAGE_URL = `s3://agents?region=${s3.region}&endpoint=${encodeURIComponent(s3.url)}`;
  const driver = () => s3Driver({ bucket: "agents", endpoint: s3.url, region: s3.region, env: keys });
  try {
    await survive({ ...keys, SERVICE_STORAGE_URL }, () => bucketStore(driver()));
  } finally {
    await s3.close();
  }
}, 600_000);

requirement("postgres").it(
  `${title}: a database`,
  async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const env = { SERVICE_DATABASE_URL: cluster.url, SERVICE_DATABASE_SCHEMA: schema };
    await survive(env, () => (context) => openPostgresStore(context, { url: cluster.url, schema }));
  },
  600_000,
);
