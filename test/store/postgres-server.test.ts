// @long
import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { STORE } from "../../src/core/service/tokens.ts";
import { makeCase, makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { inspect, MIGRATIONS, migrate } from "../../src/core/store/postgres/migrate.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import { fromColumn, toColumn } from "../../src/core/store/postgres/sql-text.ts";
import type { Hint, Store, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { borrowSchema, Cluster, openClient, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";

const { describe } = requirement("postgres");

/** What the server has counted so far: statements that it was sent, and transactions that wrote. */
async function countsOf(cluster: Cluster, schema: string) {
  await cluster.query("create extension if not exists pg_stat_statements");
  const [row] = await cluster.query<{ commits: number; others: number; writes: number }>(
    `select coalesce(sum(calls) filter (where query like '%"${schema}"."_commit:%'), 0)::int as commits,
       coalesce(sum(calls) filter (where query like '%"${schema}".%' and query not like '%."_commit:%' and query not like '%_v <> %'), 0)::int as others,
       pg_snapshot_xmax(pg_current_snapshot())::text::int as writes
     from pg_stat_statements where toplevel`,
  );
  return row!;
}

describe("Postgres, as its server sees it", () => {
  it("gets one statement and one commit for all transactions that wait, whatever is in them", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [store] = (await openStores(1, { schema })) as [Store];
    const ids = Array.from({ length: 64 }, (_, number) => `j${number}`);
    await Promise.all(ids.map((id) => store.table("Job").insert(makeJob(id, { run_count: 1 }))));
    const before = await countsOf(cluster, schema);
    const groups = (await store.stats()).details!.commits as number;

    for (let round = 0; round < 5; round++) {
      await Promise.all(
        ids.map((job) =>
          store.transaction(
            async (tx) => {
              await tx.change("Job", job, (one) => ({ ...one, total_cost: round }));
              for (let step = 0; step < 10; step++) await tx.append("Run", job, makeEntry(`${step}`));
            },
            { fence: { job, epoch: 1 } },
          ),
        ),
      );
    }

    const after = await countsOf(cluster, schema);
    const commits = after.commits - before.commits;
    expect(commits).toBe(((await store.stats()).details!.commits as number) - groups);
    // A round is what waits at one moment, and now and then a first one that does not wait for the others.
    expect(commits).toBeLessThanOrEqual(10);
    // The server counts a transaction's number only where it writes.
    expect(after.writes - before.writes).toBe(commits);
    // The ends of the logs are read once; bodies are in memory. One more reads the statistics.
    expect(after.others - before.others).toBeLessThanOrEqual(64 + 2);
    expect(await store.log("Run").last("j63")).toBe(50);
  });

  it("gets one statement for callers that began at different times", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [store] = (await openStores(1, { schema })) as [Store];
    const before = await countsOf(cluster, schema);
    const insert = async (caller: number) => {
      for (let round = 0; round < 10; round++) await store.table("Job").insert(makeJob(`${caller}-${round}`));
    };

    const first = [0, 1, 2, 3].map(insert);
    // Their first group is under way.
    await immediate();
    await immediate();
    await Promise.all([...first, ...[4, 5, 6, 7].map(insert)]);

    expect((await countsOf(cluster, schema)).commits - before.commits).toBeLessThan(15);
  });

  it("reads nothing for the steps of a job that this process runs", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [store] = (await openStores(1, { schema })) as [Store];
    await store.transaction(async (tx) => {
      await tx.insert("Job", makeJob("a", { run_count: 1 }));
      await tx.append("Run", "a", makeEntry("begin"));
    });
    const before = await countsOf(cluster, schema);

    for (let step = 0; step < 20; step++) {
      await store.transaction(
        async (tx) => {
          await tx.change("Job", "a", (one) => ({ ...one, total_cost: step }));
          await tx.append("Run", "a", makeEntry(`${step}`));
        },
        { fence: { job: "a", epoch: 1 } },
      );
    }

    const after = await countsOf(cluster, schema);
    expect(after.commits - before.commits).toBe(20);
    expect(after.others).toBe(before.others);
  });

  it("reads nothing to see that nothing names a new entity, and still sees what another process has stored", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [one, other] = (await openStores(2, { schema })) as [Store, Store];
    await one.table("Job").insert(makeJob("a"));
    await one.table("Job").insert(makeJob("b"));
    await other.table("Case").insert(makeCase("b-1", "b"));
    const casesOf = (store: Store, id: string) =>
      store.transaction(async (tx) => {
        const ids = await tx.ids("Case", "job_id", id);
        await tx.change("Job", id, (job) => ({ ...job, case_count: ids.length }));
        return ids;
      });
    const before = await countsOf(cluster, schema);

    expect(await casesOf(one, "a")).toEqual([]);
    expect((await countsOf(cluster, schema)).others).toBe(before.others);
    expect(await casesOf(one, "b")).toEqual(["b-1"]);
    await one.table("Case").insert(makeCase("a-1", "a"));
    expect(await casesOf(one, "a")).toEqual(["a-1"]);
    await other.table("Case").remove("a-1");
    expect(await casesOf(one, "a")).toEqual([]);
  });

  it("gets one statement a group from a service whose jobs run, and notifies in other statements", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const stepper = agentOf(async ({ job }) => {
      for (let n = 0; n < 5; n++) await job.step(`step ${n}`, () => n);
    });
    await using server = await testServer({
      agents: [stepper],
      store: postgres({ url: cluster.url, schema }),
    });
    const counts = async () => {
      const [notified] = await cluster.query<{ inside: number; outside: number; started: number }>(
        `select coalesce(sum(calls) filter (where toplevel and query like '%pg_notify%'), 0)::int as outside,
           coalesce(sum(calls) filter (where not toplevel and query ~* 'notify'), 0)::int as inside,
           coalesce(sum(calls) filter (where toplevel and query ~* '^(begin|commit|notify)'), 0)::int as started
         from pg_stat_statements`,
      );
      const { details } = await server.service.get(STORE).stats();
      return { ...(await countsOf(cluster, schema)), ...notified!, groups: details!.commits as number };
    };
    const before = await counts();

    const jobs = await Promise.all(Array.from({ length: 12 }, () => startJob(server.service)));
    for (const { id } of jobs) await until(server.service, id);

    await expect.poll(async () => (await counts()).outside).toBeGreaterThan(before.outside);
    const after = await counts();
    // At least each step of a job is a commit of its own; groups have those of several jobs.
    expect(after.commits - before.commits).toBeGreaterThan(5);
    expect(after.commits - before.commits).toBeLessThan(12 * 7);
    expect(Math.abs(after.commits - before.commits - (after.groups - before.groups))).toBeLessThanOrEqual(1);
    expect([after.inside, after.started]).toEqual([before.inside, before.started]);
  });

  it("gathers hints for longer where there are many", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [one, other] = (await openStores(2, { schema })) as [Store, Store];
    const heard: string[] = [];
    let notifications = 0;
    other.hints.on((hint) => {
      notifications++;
      if (hint !== "all") heard.push(...hint.ids);
    });

    const begun = performance.now();
    for (let number = 0; number < 40; number++) {
      one.hints.tell("job", [`${number}`]);
      await delay(10);
    }

    await expect.poll(() => heard.length).toBe(40);
    expect(notifications).toBeLessThanOrEqual((performance.now() - begun) / 100 + 2);
  });

  it("tells others of hints in statements of their own, and of a lost connection", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [one, other] = (await openStores(2, { schema })) as [Store, Store];
    const heard: (Hint | "all")[] = [];
    const own: (Hint | "all")[] = [];
    other.hints.on((hint) => heard.push(hint));
    one.hints.on((hint) => own.push(hint));
    const before = await countsOf(cluster, schema);

    for (let number = 0; number < 500; number++) one.hints.tell("job", [`job-${"x".repeat(50)}-${number}`]);
    one.hints.tell("case", ["\ud800"]);

    await expect.poll(() => heard.flatMap((hint) => (hint === "all" ? [] : hint.ids)).length).toBe(501);
    expect(heard.length).toBeLessThan(20);
    expect(heard.at(-1)).toEqual({ topic: "case", ids: ["\ud800"] });
    expect(own).toHaveLength(501);
    const after = await countsOf(cluster, schema);
    expect(after.commits).toBe(before.commits);

    await cluster.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%svc:${schema}%'`,
    );
    await expect.poll(() => [heard.at(-1), own.at(-1)]).toEqual(["all", "all"]);
  });

  it("plans what is sent again and again once for a connection", async () => {
    const cluster = new Cluster({ settings: ["pg_stat_statements.track_planning=on"] });
    onTestFinished(() => cluster.close());
    await cluster.start();
    await cluster.query("create extension pg_stat_statements");
    const [store, other] = (await openStores(2, { cluster, schema: "s", connections: 1 })) as [Store, Store];
    await store.table("Job").insert(makeJob("job-1"));
    for (let n = 0; n < 40; n++) {
      await store.table("Job").change("job-1", (job) => ({ ...job, total_cost: n + 1 }));
      await other.table("Job").get("job-1");
    }

    const sent = await cluster.query<{ calls: number; plans: number }>(
      `select sum(calls)::int as calls, sum(plans)::int as plans from pg_stat_statements
       where toplevel and query ~ '_commit:|"Job" t on' group by queryid having sum(calls) > 20`,
    );
    expect(sent).toHaveLength(2);
    for (const { calls, plans } of sent) expect(plans).toBeLessThan(calls / 2);
  });

  it("has its clock asked for the time", async () => {
    const [store] = (await openStores(1)) as [Store];
    const cluster = await sharedCluster();
    const [row] = await cluster.query<{ now: number }>(
      "select extract(epoch from now())::float8 * 1000 as now",
    );

    expect((await store.now()).getTime()).toBeGreaterThanOrEqual(row!.now - 1);
  });

  it("is refused by older code once newer code has changed its tables", async () => {
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    await openStores(1, { schema });
    const client = await openClient(cluster);
    const newer = [...MIGRATIONS, { number: 3, sql: (own: string) => `create table ${own}._newer (a int)` }];

    await Promise.all([migrate(client, schema, [], newer), inspect(client)]);

    const open = postgres({ url: cluster.url, schema });
    await expect(open({ tables: CORE_TABLES, dataDir: "", log: console })).rejects.toThrow(
      /changed by a newer version .* its tables have version 3, this version knows 2/,
    );
  });

  it("several that start at the same time make its tables once", async () => {
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();

    const stores = (await Promise.all([0, 1, 2, 3].map(() => openStores(1, { schema })))).flat();

    await Promise.all(stores.map((store, number) => store.table("Job").insert(makeJob(`j${number}`))));
    expect((await stores[0]!.table("Job").list()).total).toBe(4);
  });

  it("gets the index values of a new version of a table computed at the next start", async () => {
    interface Note {
      id: string;
      size: number;
    }
    const spec = (version: number, facets: string[], factor: number): TableSpec => ({
      name: 'A table\'s "name"',
      version,
      entity: false,
      index: (entity) => ({ size: (entity as Note).size * factor, "who's": entity.id }),
      facets,
      sorted: ["size"],
    });
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    const log = { info() {}, warn() {}, error() {} };
    const open = async (table: TableSpec) => {
      const store = await postgres({ url: cluster.url, schema })({ tables: [table], dataDir: "", log });
      return { store, notes: store.table(table.name as "Job") };
    };
    const first = await open(spec(1, [], 1));
    const all = Array.from({ length: 450 }, (_, size) => ({ id: `n${size}`, size }));
    await Promise.all(all.map((note) => first.notes.insert(note as never)));
    expect(await first.notes.ids({ where: { size: 7 } })).toEqual(["n7"]);
    expect(await first.notes.ids({ where: { "who's": "n8" } })).toEqual(["n8"]);
    await first.store.close();

    const second = await open(spec(2, ["who's"], -2));
    onTestFinished(() => second.store.close());

    expect(await second.notes.ids({ where: { size: 7 } })).toEqual([]);
    expect(await second.notes.ids({ where: { size: -14 } })).toEqual(["n7"]);
    expect(await second.notes.ids({ limit: 2, sort: "size" })).toEqual(["n449", "n448"]);
    expect(await second.notes.countBy("who's", { where: { "who's": ["n1", "n2"] } })).toEqual({
      n1: 1,
      n2: 1,
    });
    expect((await second.notes.get("n7")) as unknown).toEqual({ id: "n7", size: 7 });
  });

  it("finds what an instance of older code writes after one of newer code has started", async () => {
    const spec = (version: number, facets: string[]): TableSpec => ({
      name: "Note",
      version,
      entity: false,
      index: (entity) => ({ kind: `${version} ${entity.id}`, ...(facets.length > 1 && { also: entity.id }) }),
      facets,
      sorted: [],
    });
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    const open = async (table: TableSpec) => {
      const log = { info() {}, warn() {}, error() {} };
      const context = { tables: [table], dataDir: "", log };
      const store = await openPostgresStore(context, { url: cluster.url, schema }, { recheck: 50 });
      onTestFinished(() => store.close());
      return store.table("Note" as "Job");
    };
    const older = await open(spec(1, ["kind"]));
    const newer = await open(spec(2, ["kind", "also"]));

    await older.insert({ id: "a" } as never);

    await expect.poll(() => newer.ids({ where: { kind: "2 a", also: "a" } })).toEqual(["a"]);
    await older.change("a", (note) => ({ ...note, name: "changed" }));
    await expect.poll(() => newer.ids({ where: { kind: "1 a" } })).toEqual([]);
    expect(await newer.get("a")).toMatchObject({ name: "changed" });
    // The older one leaves alone what the newer one has written: they would take turns forever.
    const version = async () =>
      (await cluster.query<{ _ver: string }>(`select _ver from ${schema}."Note"`))[0]!._ver;
    const before = await version();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await version()).toBe(before);
  });

  it("sorts, compares and finds values of all types as the other stores do", async () => {
    const values = [null, false, true, -1e300, -5, 0, 1.5, 2 ** 53, "", "A", "a", "é", "𝒳", "\ue000", "ﬀ"];
    const table: TableSpec = {
      name: "Mixed",
      version: 1,
      entity: false,
      index: (entity) => ({ kept: values[Number(entity.id)]!, other: values[Number(entity.id)]! }),
      facets: ["kept"],
      sorted: ["kept"],
    };
    const cluster = await sharedCluster();
    const log = { info() {}, warn() {}, error() {} };
    const store = await postgres({ url: cluster.url, schema: cluster.newSchema() })({
      tables: [table],
      dataDir: "",
      log,
    });
    onTestFinished(() => store.close());
    const rows = store.table("Mixed" as "Job");
    await Promise.all([...values.keys()].reverse().map((id) => rows.insert({ id: `${id}` } as never)));
    const inOrder = values.map((_, at) => `${at}`);

    for (const field of ["kept", "other"]) {
      expect(await rows.ids({ sort: field })).toEqual(inOrder);
      expect(await rows.ids({ sort: `-${field}` })).toEqual([...inOrder].reverse());
      for (const [at, value] of values.entries()) {
        expect(await rows.ids({ where: { [field]: value } })).toEqual([`${at}`]);
      }
      expect(await rows.ids({ where: { [field]: { gte: 0, lt: 2 } }, sort: "id" })).toEqual(["5", "6"]);
      expect(await rows.ids({ where: { [field]: { lt: 0 } }, sort: field })).toEqual(["3", "4"]);
      expect(await rows.ids({ where: { [field]: { gte: "a", lt: "𝒳" } }, sort: field })).toEqual([
        "10",
        "11",
      ]);
      expect(await rows.ids({ where: { [field]: { contains: "É" } } })).toEqual(["11"]);
    }
    expect(Object.keys(await rows.countBy("kept")).sort()).toEqual(values.map(String).sort());
    for (const [at, value] of values.entries()) {
      expect(await store.transaction((tx) => tx.ids("Mixed" as "Job", "kept", value))).toEqual([`${at}`]);
    }
  });
});

it("columns keep every text, in JavaScript's order", () => {
  const texts = [
    "",
    "a",
    "\u0001",
    "é",
    "\ud7ff",
    "\ud800",
    "\ud83d\ude00",
    "\udfff",
    "\ue000",
    "\ue800",
    "\uffff",
  ];
  const stored = texts.map(toColumn);

  expect(stored.map(fromColumn)).toEqual(texts);
  expect(fromColumn(toColumn("\0 x \0"))).toBe("\0 x \0");
  const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  expect([...stored].sort(byBytes).map(fromColumn)).toEqual([...texts].sort());
  for (const text of stored) expect(Buffer.from(text).toString()).toBe(text);
});
