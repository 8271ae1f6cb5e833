// @alone
// @long
// @losses
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { linkFile, unlinkFiles } from "../../src/core/entities/job-files.ts";
import { keepResultOf } from "../../src/core/entities/written-files.ts";
import { LARGE_RESULT } from "../../src/core/models/file.ts";
import { fileDriver } from "../../src/core/storage/file.ts";
import { openStorage } from "../../src/core/storage/open-storage.ts";
import { s3Driver } from "../../src/core/storage/s3.ts";
import { ROOT, readGeneration, writeGeneration } from "../../src/core/store/backup/generation.ts";
import { pruneGenerations, readGenerations } from "../../src/core/store/backup/generations.ts";
import { CONTENTS_ROOT } from "../../src/core/store/backup/shipped-contents.ts";
import { BucketPlace } from "../../src/core/store/bucket/bucket-place.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { sendSnapshot } from "../../src/core/store/engine/snapshot.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { backupStore, readBackup, restoreStore, saveBackup } from "../../src/core/store/maintenance.ts";
import { fillPlace, moveStore, type Place } from "../../src/core/store/move.ts";
import { DatabasePlace } from "../../src/core/store/postgres/database-place.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import type { StoreFactory } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { limitOf, shareOf } from "../_share.ts";
import { bytesOf, FileParts, LIMITS, sha256, textOf, toFile } from "../entities/_files.ts";
import { type S3Server, startS3 } from "../storage/s3-server.ts";
import { project, REPOSITORY, svc } from "./_svc.ts";

/*
 * Services whose jobs have files, and commands about their data, are killed at each of their calls that change a disk or
 * send something. What is left is finished, or made again, and has all files then, and nothing else.
 */

const KILL = fileURLToPath(new URL("_kill-at.mjs", import.meta.url));
const COMMAND = [process.execPath, "--import", KILL, join(REPOSITORY, "dist/cli.js")];
const KEYS = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
/** Two chunks. */
const TEXT = "0123456789".repeat(450_000);
/** Calls of which one run kills one: a run on a database takes several times as long. */
const SHARE = 32;
const DATABASE_SHARE = 4 * SHARE;
/** Processes at the same time. */
const BESIDE = 2;
const log = { info() {}, warn() {}, error() {} };

let s3: S3Server;
let template: string;
beforeAll(async () => {
  s3 = await startS3(["agents"]);
  const root = mkdtempSync(join(tmpdir(), "store-killed-template-"));
  await fill(join(root, "data"));
  // Without what locks it.
  template = join(root, "backup");
  await backupStore(join(root, "data"), template);
  return async () => {
    await s3.close();
    rmSync(root, { recursive: true, force: true });
  };
});

async function within<T>(open: StoreFactory, dataDir: string, work: (parts: FileParts) => Promise<T>) {
  const store = await open({ tables: CORE_TABLES, dataDir, log });
  try {
    return await work(new FileParts(store));
  } finally {
    await store.close();
  }
}

/** Stores a job with two files and a large result, and one that was removed a moment ago. */
function fill(dataDir: string): Promise<void> {
  return within(openJsonStore, dataDir, async (parts) => {
    const { files, ledger } = parts;
    for (const text of [TEXT, "small", "removed"]) {
      const upload = await files.add({ name: "a.txt", type: "text/plain" }, bytesOf(text));
      const id = text === "removed" ? "gone" : "job-1";
      const job = { id, workspace: "local", agent: "agent", access: null };
      await ledger.write((unit) => linkFile(unit, toFile(upload), { job, origin: "field", limits: LIMITS }));
      await files.discard(upload.id);
    }
    const result = await files.writeJson(LARGE_RESULT, '"large"');
    await ledger.write((unit) => keepResultOf(unit, files, result, "job-1"));
    files.release([result]);
    await ledger.write((unit) => unlinkFiles(unit, "gone"));
  });
}

/** Where a store is: for the command, and for what checks it. */
interface Held {
  readonly argument: string;
  readonly env: Record<string, string>;
  readonly place: () => Place;
  readonly open: StoreFactory;
  readonly dataDir: string;
}

type Kind = "folder" | "bucket" | "database";

let made = 0;
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "store-killed-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function held(kind: Kind): Promise<Held> {
  if (kind === "folder") {
    const to = join(folder(), "data");
    return { argument: to, env: {}, place: () => new FolderPlace(to), open: openJsonStore, dataDir: to };
  }
  if (kind === "bucket") {
    const argument = urlOf(`store-${++made}`);
    const driver = driverOf(`store-${made}`);
    const name = `s3://agents/store-${made}`;
    return {
      ...{ argument, env: { ...KEYS, SERVICE_STORAGE_URL: argument } },
      place: () => new BucketPlace({ name, storage: driver, dead: 0 }),
      ...{ open: bucketStore(driver), dataDir: folder() },
    };
  }
  const { url, schema } = await sharedCluster().then(async (cluster) => ({
    ...{ url: cluster.url, schema: await borrowSchema(cluster) },
  }));
  return {
    argument: "env:SERVICE_DATABASE_URL",
    env: { SERVICE_DATABASE_URL: url, SERVICE_DATABASE_SCHEMA: schema },
    place: () => new DatabasePlace({ url, schema }),
    open: (context) => openPostgresStore(context, { url, schema }),
    dataDir: folder(),
  };
}

const urlOf = (prefix: string) =>
  `s3://agents/${prefix}?region=${s3.region}&endpoint=${encodeURIComponent(s3.url)}`;
const driverOf = (prefix: string) =>
  s3Driver({ bucket: "agents", prefix, endpoint: s3.url, region: s3.region, env: KEYS });

/** The same, with the store of the template. */
async function filled(kind: Kind): Promise<Held> {
  const one = await held(kind);
  const from = kind === "folder" ? one.dataDir : join(folder(), "data");
  cpSync(template, from, { recursive: true });
  if (kind !== "folder") await finish(new FolderPlace(from), one.place());
  return one;
}

/** Moves what a killed command may have moved in part. */
async function finish(source: Place, target: Place): Promise<void> {
  const move = () =>
    moveStore({ source, target, now: () => new Date(), newId: () => `move-${++made}` }).then(
      () => true,
      String,
    );
  // The database may not have noticed yet that the process is gone.
  await expect.poll(move).toBe(true);
}

/** That a store has the files of the job, and nothing is missing or left over after a sweep. */
async function expectFiles(
  { open, dataDir }: Pick<Held, "open" | "dataDir">,
  texts: readonly string[] = [TEXT, "small", '"large"'],
): Promise<void> {
  await within(open, dataDir, async (parts) => {
    for (const text of texts) {
      const { content } = await parts.files.ofJob("job-1", sha256(text));
      expect((await textOf(parts.files.read(content))) === text).toBe(true);
    }
    age(join(dataDir, "svc-files"));
    parts.now = Date.now();
    await parts.sweepAll();
    expect(await parts.problems()).toEqual([]);
  });
  // Two contents of one chunk, and one of two: what a write has left counts, too.
  if (open === openJsonStore) expect(filesIn(join(dataDir, "svc-files"))).toHaveLength(4);
}

/** All files below a folder. */
function filesIn(path: string): string[] {
  if (!existsSync(path)) return [];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Lets a day pass for what is there. */
function age(path: string): void {
  const yesterday = new Date(Date.now() - 25 * 3_600_000);
  for (const file of filesIn(path)) utimesSync(file, yesterday, yesterday);
}

/** A command, and what must be so wherever it was killed. */
interface Tried {
  readonly args: readonly string[];
  /** The program that it is. @default `svc` */
  readonly command?: readonly string[];
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly check: (isKilled: boolean) => Promise<void>;
}

/** Kills a command at each call. */
async function killEverywhere(prepare: () => Promise<Tried>, share = SHARE): Promise<void> {
  const run = async (at: number, isAfter: boolean): Promise<number> => {
    const { args, env, check, command = COMMAND, cwd = folder() } = await prepare();
    const KILL_COUNT = join(cwd, "count");
    const kill = { KILL_AT: String(at), KILL_COUNT, ...(isAfter && { KILL_AFTER: "1" }) };
    const { code, signal, stderr } = await svc(args, { cwd, env: { ...env, ...kill }, command });
    const isKilled = signal === "SIGKILL";
    const where = `${args.join(" ")}: ${isAfter ? "after" : "before"} call ${at}`;
    expect(isKilled || code === 0, `${where}: ${stderr}`).toBe(true);
    await check(isKilled).catch((error: Error) => {
      throw new Error(`${where}: ${error.message}`, { cause: error });
    });
    return isKilled ? 0 : Number(readFileSync(KILL_COUNT, "utf8"));
  };
  const calls = await run(0, false);
  expect(calls).toBeGreaterThan(5);
  const all = Array.from({ length: 2 * calls }, (_, n) => [1 + (n >> 1), n % 2 === 1] as const);
  const mine = [...shareOf(all, share)];
  let killed = 0;
  const worker = async (): Promise<void> => {
    for (let next = mine.pop(); next; next = mine.pop()) if ((await run(...next)) === 0) killed++;
  };
  await Promise.all(Array.from({ length: BESIDE }, worker));
  console.log(`${calls} calls: killed ${killed} times`);
  expect(killed).toBeGreaterThan(0);
}

const LIMIT = limitOf(300_000, SHARE);
const DATABASE_LIMIT = limitOf(300_000, DATABASE_SHARE);
const shareFor = (...kinds: readonly Kind[]) => (kinds.includes("database") ? DATABASE_SHARE : SHARE);

function moves(from: Kind, to: Kind): Promise<void> {
  return killEverywhere(
    async () => {
      const [source, target] = [await filled(from), await held(to)];
      const args = ["store", "move", "--from", source.argument, "--to", target.argument];
      const check = async () => {
        await finish(source.place(), target.place());
        await expect(within(source.open, source.dataDir, async () => {})).rejects.toThrow();
        await expectFiles(target);
      };
      return { args, env: { ...source.env, ...target.env }, check };
    },
    shareFor(from, to),
  );
}

/** A backup into a folder, or into a storage. */
function backups(from: Kind): Promise<void> {
  return killEverywhere(async () => {
    const source = await filled(from);
    const [to, back] = [join(folder(), "backup"), folder()];
    const flags = from === "folder" ? ["--data-dir", source.dataDir] : [];
    const check = async (isKilled: boolean) => {
      const restored = await restoreStore(to, back).then(
        () => true,
        () => false,
      );
      // What was not finished is not restored in part.
      if (restored) await expectFiles({ open: openJsonStore, dataDir: back });
      else expect(isKilled).toBe(true);
      if (from === "folder") await backupStore(source.dataDir, join(folder(), "again"));
      await expectFiles(source);
    };
    return { args: ["store", "backup", to, ...flags], env: source.env, check };
  }, shareFor(from));
}

function restores(to: Kind): Promise<void> {
  return killEverywhere(async () => {
    const backup = join(folder(), "backup");
    cpSync(template, backup, { recursive: true });
    const target = await held(to);
    const flags = to === "folder" ? ["--data-dir", target.dataDir] : [];
    const check = async (isKilled: boolean) => {
      if (to === "folder") {
        const state = await new FolderPlace(target.dataDir).state().catch(() => undefined);
        if (state?.kind !== "open") {
          expect(isKilled).toBe(true);
          rmSync(target.dataDir, { recursive: true, force: true });
          await restoreStore(backup, target.dataDir);
        }
      } else if (isKilled) {
        const again = async () => {
          const place = target.place();
          await place.lock();
          try {
            if ((await place.state()).kind !== "open")
              await readBackup(backup, (content) =>
                fillPlace(place, content, openStorage(fileDriver({ folder: backup }))),
              );
          } finally {
            await place.release();
          }
        };
        await expect.poll(() => again().then(() => true, String)).toBe(true);
      }
      await expectFiles(target);
    };
    return { args: ["store", "restore", backup, ...flags], env: target.env, check };
  }, shareFor(to));
}

const LARGE = "x".repeat(300_000);
/** Has a job with an upload, a file of a step and a large result, and removes another one; what is done is not done again. */
const WORK = `
import { createServer, defineAgent, file } from "agent-control-service";
import * as v from "valibot";

const maker = defineAgent({
  name: "Maker", version: "1.0.0",
  methods: { job_start: { fields: v.object({ contract: file() }), run: async ({ job }) => {
    await job.step("make", ({ file }) => file("small.txt", job.id === "job-1" ? "small" : "of " + job.id));
    await job.step("large", () => job.id === "job-1" ? "${LARGE}" : "y".repeat(300_000));
  } } },
});
const service = createServer({ agents: [maker], apiKey: "a-key-of-the-files-tests", logLevel: "error" });
await service.ready();
const ask = (path, init = {}) => service.fetch(new Request("http://127.0.0.1" + path, {
  ...init, headers: { "x-api-key": "a-key-of-the-files-tests", "content-type": "application/json", ...init.headers },
}));
const resultOf = async (response) => {
  if (!response.ok) throw new Error(response.url + " " + response.status + " " + (await response.text()));
  return response.status === 204 ? undefined : response.json();
};
for (const id of ["gone", "job-1"]) {
  if ((await ask("/jobs/" + id)).status === 404) {
    const body = "0123456789".repeat(450_000);
    const { upload } = await resultOf(await ask("/files?name=a.txt", { method: "POST", body, headers: { "content-type": "text/plain" } }));
    await resultOf(await ask("/agents/maker/jobs", { method: "POST", body: JSON.stringify({
      job_context: { job_id: id }, job_fields: { contract: { upload } },
    }) }));
    await ask("/files/" + upload, { method: "DELETE" });
  }
  for (let status = ""; status !== "completed"; ) {
    ({ status } = await resultOf(await ask("/jobs/" + id)));
    if (["failed", "cancelled", "awaiting"].includes(status)) throw new Error(id + " is " + status);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  if (id === "gone") await resultOf(await ask("/admin/api/jobs/gone?permanent=true", { method: "DELETE" }));
}
await service.close();
`;

/** A service whose jobs have files; after its death, it does the rest. */
function works(kind: Kind): Promise<void> {
  return killEverywhere(async () => {
    const cwd = await project({ "work.mjs": WORK });
    const place = await held(kind);
    const dataDir = kind === "folder" ? join(cwd, "data") : place.dataDir;
    const { env } = place;
    const check = async (isKilled: boolean) => {
      if (isKilled) {
        const again = await svc([], { cwd, env, command: [process.execPath, "work.mjs"] });
        expect(again.code, again.stderr).toBe(0);
      }
      await expectFiles({ open: place.open, dataDir }, [TEXT, "small", JSON.stringify(LARGE)]);
    };
    return { args: [], command: [process.execPath, "--import", KILL, "work.mjs"], cwd, env, check };
  }, shareFor(kind));
}

const title = "that is killed at any of its calls";

it(
  `a service on a folder ${title} loses no file of its jobs, and leaves none over`,
  () => works("folder"),
  LIMIT,
);
it(
  `a service on a bucket ${title} loses no file of its jobs, and leaves none over`,
  () => works("bucket"),
  LIMIT,
);

it(
  `a move from a folder to a bucket ${title} is finished by the next one`,
  () => moves("folder", "bucket"),
  LIMIT,
);
it(
  `a move from a bucket to a folder ${title} is finished by the next one`,
  () => moves("bucket", "folder"),
  LIMIT,
);
it(
  `a move from a folder to a folder ${title} is finished by the next one`,
  () => moves("folder", "folder"),
  LIMIT,
);
it(`a backup of a folder ${title} is whole or none`, () => backups("folder"), LIMIT);
it(`a backup of a bucket ${title} is whole or none`, () => backups("bucket"), LIMIT);
it(`a restore into a folder ${title} is whole or none`, () => restores("folder"), LIMIT);
it(`a restore into a bucket ${title} is whole or none`, () => restores("bucket"), LIMIT);

it(
  `a backup in a storage ${title} is whole or none, and leaves nothing there when it is pruned`,
  async () => {
    await killEverywhere(async () => {
      const source = await filled("folder");
      const prefix = `backup-${++made}`;
      const storage = openStorage(driverOf(prefix));
      const args = ["store", "backup", "--to", urlOf(prefix), "--data-dir", source.dataDir];
      const check = async (isKilled: boolean) => {
        const generations = await readGenerations(storage);
        if (!isKilled) expect(generations).toHaveLength(1);
        const later = new Date(Date.now() + 3 * 24 * 3_600_000);
        const again = await within(openJsonStore, source.dataDir, async ({ store, storage: contents }) =>
          writeGeneration(
            storage,
            async function* (has) {
              yield* sendSnapshot(await store.snapshot!(), contents, has);
            },
            { now: later, version: "1" },
          ),
        );
        for (const one of [...generations, again]) {
          const to = join(folder(), "data");
          await saveBackup(readGeneration(storage, one), to);
          await expectFiles({ open: openJsonStore, dataDir: to });
        }
        const rule = { now: new Date(later.getTime() + 24 * 3_600_000), keep: 1000 };
        await pruneGenerations(storage, rule);
        expect(await storage.getKeys(CONTENTS_ROOT)).toHaveLength(again.contents!.chunks);
        const whole = [...generations, again].map(({ id }) => `${ROOT}:${id}:`);
        const others = (await storage.getKeys(ROOT)).filter(
          (key) => !key.startsWith(`${CONTENTS_ROOT}:`) && !whole.some((one) => key.startsWith(one)),
        );
        expect(others).toEqual([]);
      };
      return { args, env: KEYS, check };
    });
  },
  LIMIT,
);

it(
  `a restore from a storage ${title} is whole or none`,
  async () => {
    const prefix = `backup-${++made}`;
    const storage = openStorage(driverOf(prefix));
    const generation = await within(openJsonStore, (await filled("folder")).dataDir, async (parts) =>
      writeGeneration(
        storage,
        async function* (has) {
          yield* sendSnapshot(await parts.store.snapshot!(), parts.storage, has);
        },
        { now: new Date(), version: "1" },
      ),
    );
    await killEverywhere(async () => {
      const target = await held("folder");
      const args = ["store", "restore", "--from", urlOf(prefix), "--data-dir", target.dataDir];
      const check = async (isKilled: boolean) => {
        if ((await new FolderPlace(target.dataDir).state().catch(() => undefined))?.kind !== "open") {
          expect(isKilled).toBe(true);
          rmSync(target.dataDir, { recursive: true, force: true });
          await saveBackup(readGeneration(storage, generation), target.dataDir);
        }
        await expectFiles(target);
      };
      return { args, env: KEYS, check };
    });
  },
  LIMIT,
);

requirement("postgres").describe("a database", () => {
  it(
    `a service on it ${title} loses no file of its jobs, and leaves none over`,
    () => works("database"),
    DATABASE_LIMIT,
  );
  it(
    `a move from a folder into it ${title} is finished by the next one`,
    () => moves("folder", "database"),
    DATABASE_LIMIT,
  );
  it(
    `a move from it to a folder ${title} is finished by the next one`,
    () => moves("database", "folder"),
    DATABASE_LIMIT,
  );
  it(`a backup of it ${title} is whole or none`, () => backups("database"), DATABASE_LIMIT);
  it(`a restore into it ${title} is whole or none`, () => restores("database"), DATABASE_LIMIT);
});
