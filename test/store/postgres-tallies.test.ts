// @long
import { expect, it, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import type { Condition, Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { borrowSchema, giveBackSchema, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const HOUR = 3_600_000;
const STATUSES = ["completed", "failed", "in_progress"] as const;
const at = <T>(values: readonly T[], number: number) => values[number % values.length]!;
const iso = (time: number) => new Date(time).toISOString();

requirement("postgres").describe("The numbers of a Postgres store by hour", () => {
  it("are those of its entities, which any client may change before, while and after hours are counted", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    onTestFinished(() => giveBackSchema(schema));
    // They count no hours: the first two searches are a minute apart.
    const [plain] = (await openStores(1, { schema })) as [Store];
    const now = (await plain.now()).getTime();
    const jobs = plain.table("Job");
    const put = (n: number) => jobs.insert(jobOf(n, now));
    for (let n = 0; n < 200; n++) await put(n);

    const log = { info() {}, warn() {}, error() {} };
    const open = () =>
      openPostgresStore({ tables: CORE_TABLES, log }, { url: cluster.url, schema }, { recheck: 20 });
    const counting = await Promise.all([open(), open()]);
    onTestFinished(() => Promise.all(counting.map((store) => store.close())).then(() => {}));
    const due = Math.floor((now - HOUR / 6) / HOUR) * HOUR;
    const counted = () =>
      cluster
        .query<{ until: number }>(`select until from ${schema}._tallied`)
        .then(([row]) => row?.until ?? 0);
    // Hours are counted while jobs come, end, start over and go.
    for (let n = 0; n < 200 || (await counted()) < due; n++) {
      if (n < 200) await put(200 + n);
      await change(counting[n % 2]!, n % 300, now);
    }
    for (const store of counting) await expectExact(store, now);

    for (let n = 0; n < 300; n++) await change(at([plain, ...counting], n), (7 * n) % 400, now);
    await cluster.query(`delete from ${schema}."Job" where failure = 'f1'`);
    for (const store of counting) await expectExact(store, now);
    const [{ cells }] = (await cluster.query<{ cells: number }>(
      `select count(*)::int as cells from ${schema}._tally where n <> 0`,
    )) as [{ cells: number }];
    expect(cells).toBeGreaterThan(100);
    const [{ minus }] = (await cluster.query<{ minus: number }>(
      `select count(*)::int as minus from ${schema}._tally where n < 0`,
    )) as [{ minus: number }];
    expect(minus).toBe(0);
    // The numbers are what is read: another one is seen.
    await cluster.query(`update ${schema}._tally set n = n + 1 where name like '%:0'`);
    await expect(expectExact(counting[0]!, now)).rejects.toThrow();
    await cluster.query(`update ${schema}._tally set n = n - 1 where name like '%:0'`);

    // As a server without the last of its hours does.
    await cluster.query(`delete from ${schema}._tally; delete from ${schema}._tallied`);
    for (const store of counting) await expectExact(store, now);
    await cluster.query(`truncate ${schema}."Job"`);
    for (const store of counting) await expectExact(store, now);
  }, 300_000);

  it("that cannot be counted are in the log once until they can be", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    onTestFinished(() => giveBackSchema(schema));
    const warnings: string[] = [];
    const log = { info() {}, warn: (message: string) => void warnings.push(message), error() {} };
    const [plain] = (await openStores(1, { schema })) as [Store];
    const now = (await plain.now()).getTime();
    await plain.table("Job").insert(jobOf(47, now));
    const rename = (from: string, to: string) =>
      cluster.query(`alter table ${schema}."${from}" rename to "${to}"`);
    const due = Math.floor((now - HOUR / 6) / HOUR) * HOUR;
    const noted = () => warnings.filter((one) => one.includes("hours of figures")).length;
    const isCounted = async () =>
      ((await cluster.query<{ until: number }>(`select until from ${schema}._tallied`))[0]?.until ?? 0) >=
      due;

    await rename("_tally", "_away");
    const store = await openPostgresStore(
      { tables: CORE_TABLES, log },
      { url: cluster.url, schema },
      { recheck: 5 },
    );
    onTestFinished(() => store.close());
    await expect.poll(noted, { timeout: 60_000 }).toBe(1);
    // Others after it say nothing.
    const looks = () =>
      cluster.query<{ n: number }>(
        "select xact_rollback::int as n from pg_stat_database where datname = current_database()",
      );
    const before = (await looks())[0]!.n;
    await expect.poll(async () => (await looks())[0]!.n, { timeout: 60_000 }).toBeGreaterThan(before + 4);
    expect(noted()).toBe(1);
    await rename("_away", "_tally");
    await expect.poll(isCounted, { timeout: 60_000 }).toBe(true);

    expect(noted()).toBe(1);
  }, 200_000);
});

/** Jobs of two days, of which some are open, and some end in another hour than they started in. */
function jobOf(n: number, now: number) {
  const created = now - (n % 48) * HOUR + ((n * 7919) % HOUR) - HOUR;
  const status = at(STATUSES, n);
  const finished =
    status === "in_progress" ? null : iso(Math.min(now, created + ((n * 104_729) % (3 * HOUR))));
  return makeJob(`job-${n}`, {
    ...{ status, agent_name: `agent-${n % 3}`, created_at: iso(created), updated_at: iso(created) },
    finished_at: finished,
    error: status === "failed" ? `broken ${"abc"[n % 3]}` : null,
  });
}

/** Removes a job, ends it, or has it run again. */
async function change(store: Store, n: number, now: number): Promise<void> {
  const id = `job-${n}`;
  if ((await store.table("Job").get(id)) === undefined) return;
  if (n % 5 === 0) {
    await store.table("Job").remove(id);
    return;
  }
  await store
    .table("Job")
    .change(id, (job) =>
      job.finished_at === null
        ? { ...job, status: "completed", finished_at: iso(now - (n % 30) * HOUR) }
        : { ...job, status: "in_progress", finished_at: null },
    );
}

/** Compares what the store counts over a time with its jobs. */
async function expectExact(store: Store, now: number): Promise<void> {
  const jobs = store.table("Job");
  const all = (await jobs.list({ limit: Number.POSITIVE_INFINITY })).items;
  let looks = all.length;
  const ends = [now - 24 * HOUR, now - 3 * HOUR, now + HOUR, now - 90 * HOUR];
  for (const by of ["created_at", "finished_at"] as const)
    for (const gte of [0, now - 60 * HOUR, now - 24 * HOUR - 1234, Math.floor(now / HOUR) * HOUR - 5 * HOUR])
      for (const lt of [undefined, at(ends, looks++)])
        for (const others of [
          {},
          { status: "completed" },
          { agent_name: ["agent-0", "agent-2"], workspace_id: "w" },
        ] as Record<string, Condition>[]) {
          const where = { ...others, [by]: { gte, ...(lt !== undefined && { lt }) } };
          const found = all.filter((job) => {
            const time = Date.parse(job[by] ?? "");
            if (!(time >= gte) || (lt !== undefined && time >= lt)) return false;
            if (others.status !== undefined && job.status !== others.status) return false;
            return others.agent_name === undefined || job.agent_name !== "agent-1";
          });
          const counts: Record<string, number> = {};
          for (const { status } of found) counts[status] = (counts[status] ?? 0) + 1;
          expect([where, await jobs.countBy("status", { where })]).toEqual([where, counts]);
          expect([where, (await jobs.list({ where, limit: 0 })).total]).toEqual([where, found.length]);
          if (by === "created_at" || others.agent_name) continue;
          const spans: Record<string, number> = {};
          for (const job of found) {
            const took = String(Math.max(0, Date.parse(job.finished_at!) - Date.parse(job.created_at)));
            const value = took.length < 3 ? took : Number(took).toPrecision(2);
            spans[Number(value)] = (spans[Number(value)] ?? 0) + 1;
          }
          expect([where, await jobs.countBy("duration", { where })]).toEqual([where, spans]);
        }
}
