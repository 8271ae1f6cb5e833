/** The peers of the store: a bare file, and other common storage for such data. */
import { closeSync, fdatasync, fsyncSync, openSync, renameSync, rmSync, write, writeFileSync } from "node:fs";
import { promisify } from "node:util";

const sync = promisify(fdatasync);
const append = promisify(write);

/** Appends so many lines at a time to a file and syncs it. */
export async function rawAppends(path, { group, bytes, seconds }) {
  const file = openSync(path, "w");
  const block = Buffer.alloc(group * bytes, "x");
  const end = performance.now() + seconds * 1000;
  const began = performance.now();
  let groups = 0;
  for (let position = 0; performance.now() < end; position += block.length) {
    await append(file, block, 0, block.length, position);
    await sync(file);
    groups++;
  }
  const perSecond = (groups * group) / ((performance.now() - began) / 1000);
  closeSync(file);
  rmSync(path);
  return { perSecond };
}

/** SQLite, write-ahead log, a sync for each commit; `undefined` if no SQLite can be loaded. */
export async function sqliteUpdates(path, jobs, seconds) {
  const database = await openSqlite(path);
  if (database === undefined) return undefined;
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE job (id TEXT PRIMARY KEY, status TEXT, created TEXT, body TEXT)");
  database.exec("CREATE INDEX job_status ON job (status, created); BEGIN");
  const insert = database.prepare("INSERT INTO job VALUES (?, ?, ?, ?)");
  for (const job of jobs) insert.run(job.id, job.status, job.created_at, JSON.stringify(job));
  database.exec("COMMIT");
  const read = database.prepare("SELECT body FROM job WHERE id = ?");
  const change = database.prepare("UPDATE job SET status = ?, body = ? WHERE id = ?");
  const perSecond = await updates(jobs, seconds, (id, status) => {
    const job = { ...JSON.parse(read.get(id).body), status, updated_at: new Date().toISOString() };
    change.run(status, JSON.stringify(job), id);
  });
  database.close();
  return perSecond;
}

/** libSQL is SQLite with its binaries in the package; where it has none for the machine, Node may bring SQLite itself. */
async function openSqlite(path) {
  try {
    const { default: Database } = await import("libsql");
    return new Database(path);
  } catch {
    try {
      const { DatabaseSync } = await import("node:sqlite");
      return new DatabaseSync(path);
    } catch {
      return undefined;
    }
  }
}

/** lowdb: the whole file is rewritten, without a sync. */
export async function lowdbUpdates(path, jobs, seconds) {
  const { JSONFilePreset } = await import("lowdb/node");
  rmSync(path, { force: true });
  const db = await JSONFilePreset(path, { jobs: structuredClone(jobs) });
  await db.write();
  const byId = new Map(db.data.jobs.map((job) => [job.id, job]));
  return updates(jobs, seconds, async (id, status) => {
    byId.get(id).status = status;
    await db.write();
  });
}

/** One file with all jobs, rewritten beside the old one, synced and renamed. */
export async function wholeFileUpdates(path, jobs, seconds) {
  const byId = new Map(jobs.map((job) => [job.id, { ...job }]));
  return updates(jobs, seconds, (id, status) => {
    byId.get(id).status = status;
    const file = openSync(`${path}.tmp`, "w");
    writeFileSync(file, JSON.stringify([...byId.values()]));
    fsyncSync(file);
    closeSync(file);
    renameSync(`${path}.tmp`, path);
  });
}

async function updates(jobs, seconds, update) {
  const end = performance.now() + seconds * 1000;
  const began = performance.now();
  let count = 0;
  for (; performance.now() < end; count++) {
    await update(jobs[(count * 7919) % jobs.length].id, count % 2 === 0 ? "completed" : "failed");
  }
  return count / ((performance.now() - began) / 1000);
}
