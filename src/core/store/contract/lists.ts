import assert from "node:assert/strict";
import type { StoredCase } from "../../models/case.ts";
import type { StoredJob } from "../../models/job.ts";
import type { ListQuery, Position, Store } from "../store.ts";
import { at, makeCase, makeJob, millis, STATUSES, type StoreTest, seeded } from "./fixtures.ts";

/** Guarantees for filters, search, order and pages. */
export function listTests(test: StoreTest): void {
  const fill = async (store: Store): Promise<void> => {
    const rows: [string, Partial<StoredJob>][] = [
      ["j1", { name: "Delta", status: "completed", agent_name: "invoice-auditor", created_at: at(1) }],
      ["j2", { name: "alpha", status: "failed", agent_name: "Invoice-Reader", created_at: at(2) }],
      ["j3", { name: "Bravo", status: "completed", agent_name: "log-watch", created_at: at(2) }],
      ["j4", { name: "Charlie 100%", status: "in_progress", agent_name: "log-watch", created_at: at(3) }],
    ];
    for (const [id, fields] of rows) await store.table("Job").insert(makeJob(id, fields));
  };
  const lists = (
    title: string,
    query: Parameters<ReturnType<Store["table"]>["list"]>[0],
    expected: { ids: string[]; total?: number },
  ) =>
    test(title, async (store) => {
      await fill(store);
      const page = await store.table("Job").list(query);
      const ids = page.items.map((item) => item.id);
      assert.deepEqual({ ids, total: page.total }, { total: expected.ids.length, ...expected });
    });

  lists("are by default newest first, ties by id", undefined, { ids: ["j4", "j2", "j3", "j1"] });
  lists("sort ascending, ties by id", { sort: "created_at" }, { ids: ["j1", "j2", "j3", "j4"] });
  lists("sort by name", { sort: "name" }, { ids: ["j3", "j4", "j1", "j2"] });
  lists(
    "sort by a field that is not kept in order",
    { sort: "-agent_name" },
    { ids: ["j3", "j4", "j1", "j2"] },
  );
  lists("sort by id", { sort: "-id" }, { ids: ["j4", "j3", "j2", "j1"] });
  lists("filter by equality", { where: { status: "completed" } }, { ids: ["j3", "j1"] });
  lists(
    "filter by any of several values",
    { where: { status: ["failed", "in_progress"] } },
    { ids: ["j4", "j2"] },
  );
  lists("filter by none of no values", { where: { status: [] } }, { ids: [] });
  lists("filter by a value that is nowhere", { where: { status: "nowhere" } }, { ids: [] });
  lists(
    "filter by a part, case-insensitively",
    { where: { agent_name: { contains: "INVOICE" } } },
    { ids: ["j2", "j1"] },
  );
  lists("filter by null", { where: { finished_at: null, status: "failed" } }, { ids: ["j2"] });
  lists(
    "filter by a range",
    { where: { created_at: { gte: millis(2), lt: millis(3) } } },
    { ids: ["j2", "j3"] },
  );
  lists("filter by id", { where: { id: ["j3", "j1", "none"] } }, { ids: ["j3", "j1"] });
  lists(
    "ignore a condition of undefined",
    { where: { status: undefined, agent_name: "log-watch" } },
    { ids: ["j4", "j3"] },
  );
  lists("search case-insensitively and literally", { search: "E 100%" }, { ids: ["j4"] });
  lists("search in ids", { search: "J2" }, { ids: ["j2"] });
  lists("combine all conditions", { where: { status: "completed" }, search: "bravo" }, { ids: ["j3"] });
  lists("return a page and the total", { limit: 2, skip: 1 }, { ids: ["j2", "j3"], total: 4 });
  lists(
    "return a page of a filtered list",
    { where: { status: "completed" }, limit: 1, skip: 1 },
    { ids: ["j1"], total: 2 },
  );
  lists("return an empty page after the end", { skip: 10 }, { ids: [], total: 4 });
  lists("count without items", { limit: 0 }, { ids: [], total: 4 });

  test("an index field that does not exist is an error", async (store) => {
    await fill(store);
    await assert.rejects(store.table("Job").list({ sort: "nope" }), /nope/);
    await assert.rejects(store.table("Job").list({ where: { nope: 1 } }), /nope/);
  });

  test("the number of entities per value follows every change", async (store) => {
    await fill(store);
    await store.table("Job").change("j4", (job) => ({ ...job, status: "completed" }));
    await store.table("Job").remove("j2");
    assert.deepEqual(await store.table("Job").countBy("status"), { completed: 3 });
  });

  test("entities per value are counted among the matching ones", async (store) => {
    await fill(store);
    const jobs = store.table("Job");
    for (const query of [
      { where: { agent_name: "log-watch" } },
      { where: { agent_name: { contains: "LOG" } } },
      { where: { agent_name: { contains: "-" } } },
      { where: { agent_name: { contains: "nobody" } } },
      { where: { agent_name: { contains: "in" }, status: ["failed", "completed"] } },
      { search: "e" },
      { where: { id: ["j1"] } },
    ]) {
      const { items } = await jobs.list(query);
      const expected: Record<string, number> = {};
      for (const { status } of items) expected[status] = (expected[status] ?? 0) + 1;
      assert.deepEqual(await jobs.countBy("status", query), expected);
    }
    await assert.rejects(jobs.countBy("status", { where: { nope: 1 } }), /nope/);
  });

  test("a store that relates tables finds, and counts, by the ids of what meets conditions in another one", async (store) => {
    await fill(store);
    const jobs = await store.table("Job").list({ limit: 100 });
    for (const { id } of jobs.items) await store.table("Case").insert(makeCase(`case-${id}`, id));
    const cases = store.table("Case");
    for (const where of [{}, { status: "completed" }, { agent_name: ["log-watch"] }, { id: [] }]) {
      const related = {
        where: { job_id: { idIn: { table: "Job", where } }, status: "in_progress" },
      } as const;
      if (!store.relates) {
        await assert.rejects(cases.list(related), TypeError);
        continue;
      }
      const expected = (await store.table("Job").ids({ where })).map((id) => `case-${id}`).sort();
      assert.deepEqual(await cases.ids({ ...related, sort: "id" }), expected);
      assert.equal((await cases.list({ ...related, limit: 1 })).total, expected.length);
      const counts = expected.length > 0 ? { in_progress: expected.length } : {};
      assert.deepEqual(await cases.countBy("status", related), counts);
    }
  });

  test("a number is summed per value among the matching entities", async (store) => {
    await fill(store);
    const jobs = store.table("Job");
    const costs = { j1: 0.5, j2: 2, j3: 0, j4: 1.25 };
    for (const [id, total_cost] of Object.entries(costs))
      await jobs.change(id, (job) => ({ ...job, total_cost }));
    for (const query of [
      {},
      { where: { agent_name: "log-watch" } },
      { where: { agent_name: { contains: "in" }, status: ["failed", "completed"] } },
      { where: { total_cost: { gte: 1 } } },
      { search: "e" },
      { where: { id: ["j3"] } },
    ]) {
      const { items } = await jobs.list(query);
      const expected: Record<string, number> = {};
      for (const { status, total_cost } of items)
        if (total_cost > 0) expected[status] = (expected[status] ?? 0) + total_cost;
      assert.deepEqual(await jobs.sumBy("status", "total_cost", query), expected);
    }
    const live = { values: { total_cost: new Map([["j3", 4]]) } };
    assert.deepEqual(
      Object.values(await jobs.sumBy("agent_name", "total_cost", { live })).reduce((a, b) => a + b),
      7.75,
    );
    await assert.rejects(jobs.sumBy("status", "nope"), /nope/);
    await assert.rejects(jobs.sumBy("total_cost", "total_cost"), /no facet/);
    await assert.rejects(jobs.sumBy("duration", "total_cost"), /no facet/);
  });

  test("counts of a span are by two digits of it", async (store) => {
    const jobs = store.table("Job");
    for (const [n, took] of [0, 7, 99, 100, 104, 105, 994, 995, 1_249_999, 1_250_000, null].entries()) {
      const finished_at = took === null ? null : new Date(millis(1) + took).toISOString();
      await jobs.insert(makeJob(`s${n}`, { created_at: at(1), finished_at }));
    }

    const spans = { 0: 1, 7: 1, 99: 1, 100: 2, 110: 1, 990: 1, 1000: 1, 1200000: 1, 1300000: 1 };
    assert.deepEqual(await jobs.countBy("duration"), { ...spans, null: 1 });
    const { 0: _, 7: __, ...later } = spans;
    const where = { finished_at: { gte: millis(1) + 50 } };
    assert.deepEqual(await jobs.countBy("duration", { where }), later);
    await assert.rejects(jobs.countBy("total_cost"), /no facet "total_cost"/);
  });

  test("pages that start where the last one ended have every entity once, in each order", async (store) => {
    const jobs = store.table("Job");
    const random = seeded(7);
    const values = [0, 1, 2, 2.5, null];
    const finished = () => values[Math.floor(random() * values.length)]!;
    const long = "long ".repeat(60);
    const names = ["b", "a", "B", "ab", "", "\u{1f600} b", "\uffee b", `${long}b`, `${long}a`];
    await Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const finished_at = finished();
        return jobs.insert(
          makeJob(`p${String(n).padStart(2, "0")}`, {
            ...{ name: names[n % names.length]!, created_at: at(n % 7) },
            finished_at: finished_at === null ? null : at(finished_at),
            status: n % 2 ? "completed" : "failed",
          }),
        );
      }),
    );
    const sorts = ["id", "created_at", "name", "finished_at", "agent_name", "status"];
    for (const sort of sorts.flatMap((field) => [field, `-${field}`])) {
      for (const where of [{}, { status: "failed" }, { name: { contains: "b" } }]) {
        const all = (await jobs.list({ where, sort, limit: 100 })).items.map(({ id }) => id);
        const seen: string[] = [];
        let after: Position | undefined;
        do {
          const page = await jobs.list({ where, sort, limit: 7, after });
          assert.equal(page.total, all.length);
          seen.push(...page.items.map(({ id }) => id));
          after = page.next;
        } while (after !== undefined);
        assert.deepEqual(seen, all, `${sort} ${JSON.stringify(where)}`);
      }
    }
  });

  test("a page that starts where the last one ended repeats and skips nothing while others come and go", async (store) => {
    const jobs = store.table("Job");
    for (let n = 0; n < 20; n++) await jobs.insert(makeJob(`q${n}`, { created_at: at(n) }));
    const first = await jobs.list({ limit: 5 });
    await jobs.insert(makeJob("newer", { created_at: at(99) }));
    await jobs.remove("q15");
    await jobs.remove("q16");

    const second = await jobs.list({ limit: 5, after: first.next });

    assert.deepEqual(
      second.items.map(({ id }) => id),
      ["q14", "q13", "q12", "q11", "q10"],
    );
    assert.equal(second.total, 19);
    const last = await jobs.list({ limit: 50, after: second.next });
    assert.deepEqual([last.items.length, last.next], [10, undefined]);
  });

  test("the last page names no next one, also where it is full", async (store) => {
    await fill(store);
    const jobs = store.table("Job");

    assert.equal((await jobs.list({ limit: 4 })).next, undefined);
    assert.equal((await jobs.list({ limit: 0 })).next, undefined);
    assert.equal((await jobs.list({ limit: 2, skip: 2 })).next, undefined);
    assert.equal((await jobs.list({ limit: 3 })).next?.id, "j3");
  });

  test("a page whose total nobody needs has the same entities, and the same next one", async (store) => {
    await fill(store);
    const jobs = store.table("Job");

    for (const query of [{ limit: 2 }, { limit: 9 }, { limit: 2, skip: 1 }, { limit: 2, sort: "name" }]) {
      const { total, ...page } = await jobs.list(query);
      const { total: least, ...uncounted } = await jobs.list({ ...query, uncounted: true });
      assert.deepEqual(uncounted, page);
      assert.ok(least >= page.items.length && least <= total);
      const after = page.next;
      const { total: _, ...second } = await jobs.list({ ...query, after });
      const { total: __, ...same } = await jobs.list({ ...query, after, uncounted: true });
      assert.deepEqual(same, second);
    }
  });

  test("paging through equal timestamps returns every entity once", async (store) => {
    const ids = Array.from({ length: 150 }, (_, at) => `t${String(at).padStart(3, "0")}`);
    await Promise.all([...ids].reverse().map((id) => store.table("Job").insert(makeJob(id))));
    const seen: string[] = [];
    for (let skip = 0; skip < 150; skip += 20) {
      const page = await store.table("Job").list({ limit: 20, skip });
      seen.push(...page.items.map((job) => job.id));
    }
    assert.deepEqual(seen, ids);
  });

  test("show entities as they are at one moment, while others are removed and inserted", async (store) => {
    const jobs = store.table("Job");
    const ids = Array.from({ length: 60 }, (_, at) => `w${at}`);
    for (const id of ids) await jobs.insert(makeJob(id, { status: "failed" }));
    const found: Promise<{ status: string }[]>[] = [];
    for (const [turn, id] of ids.entries()) {
      const query = { where: { status: "failed" } };
      const listed = jobs.list(query).then(({ items }) => items);
      const named = jobs
        .ids(query)
        .then((all) => all.map((one) => ({ status: one.startsWith("w") ? "failed" : one })));
      found.push(listed, named);
      const replaced = jobs.remove(id).then(() => jobs.insert(makeJob(`x${turn}`, { status: "completed" })));
      for (let wait = 0; wait < turn % 8; wait++) await null;
      found.push(jobs.list({ ...query, search: "w" }).then(({ items }) => items));
      await replaced;
    }
    const statuses = (await Promise.all(found)).flatMap((items) => items.map(({ status }) => status));
    assert.deepEqual([...new Set(statuses)], ["failed"]);
  });

  test("find and order by live values laid over the stored ones", async (store) => {
    const jobs = store.table("Job");
    const made: [string, Partial<StoredJob>][] = [
      ["runs", { status: "in_progress", total_cost: 0.01, created_at: at(2) }],
      ["waits", { status: "awaiting", total_cost: 3, created_at: at(5) }],
      ["queued", { status: "stopped", total_cost: 0, created_at: at(1) }],
      ["short", { status: "completed", total_cost: 2, created_at: at(1), finished_at: at(2) }],
      ["long", { status: "failed", total_cost: 0.5, created_at: at(1), finished_at: at(8) }],
    ];
    for (const [id, fields] of made) await jobs.insert(makeJob(id, fields));
    const live = {
      values: { total_cost: new Map(Object.entries({ runs: 2.5, gone: 9 })) },
      elapsed: {
        ...{ field: "duration", since: "created_at", now: Date.parse(at(9)) },
        status: ["in_progress", "awaiting", "cancelling"],
      },
    };
    const ids = (query: ListQuery) => jobs.ids({ ...query, live });
    const minutes = (count: number) => Date.parse(at(count)) - Date.parse(at(0));

    assert.deepEqual(await ids({ sort: "-total_cost" }), ["waits", "runs", "short", "long", "queued"]);
    assert.deepEqual(await ids({ sort: "total_cost" }), ["queued", "long", "short", "runs", "waits"]);
    assert.deepEqual(await ids({ where: { total_cost: { gte: 2.5 } }, sort: "id" }), ["runs", "waits"]);
    assert.deepEqual(await ids({ where: { total_cost: { lt: 0.1 } }, sort: "id" }), ["queued"]);
    assert.deepEqual(await ids({ sort: "-duration" }), ["long", "runs", "waits", "short", "queued"]);
    assert.deepEqual(await ids({ sort: "duration" }), ["queued", "short", "waits", "long", "runs"]);
    const where = { duration: { gte: minutes(4) } };
    assert.deepEqual(await ids({ where, sort: "id" }), ["long", "runs", "waits"]);
    const page = await jobs.list({ where, sort: "-duration", limit: 1, skip: 1, live });
    assert.deepEqual([page.items.map(({ id }) => id), page.total], [["runs"], 3]);
    const dear = { total_cost: { gte: 2.5 } };
    assert.deepEqual(await jobs.countBy("status", { where: dear, live }), { in_progress: 1, awaiting: 1 });
    assert.deepEqual(await ids({ where: { ...dear, status: "in_progress" }, search: "RUN" }), ["runs"]);
    assert.equal((await jobs.list({ where: dear, limit: 0, live })).total, 2);
    assert.deepEqual(await jobs.ids({ where: dear }), ["waits"]);
  });

  test("agree with a plain scan after hundreds of random changes", async (store) => {
    await comparedWithScan(store);
  });
}

/** Random writes and queries, each result compared with filtering and sorting all entities. */
async function comparedWithScan(store: Store): Promise<void> {
  const model = new Map<string, StoredCase>();
  const random = seeded(7);
  const pick = (count: number) => Math.floor(random() * count);
  for (let round = 0; round < 600; round++) {
    const id = `c${pick(120)}`;
    const fields = {
      status: STATUSES[pick(4)]!,
      total_cost: pick(5),
      created_at: at(pick(9)),
      name: `n${pick(30)}`,
    };
    if (model.has(id) && random() < 0.3) {
      await store.table("Case").remove(id);
      model.delete(id);
    } else if (model.has(id)) {
      model.set(id, await store.table("Case").change(id, (item) => ({ ...item, ...fields })));
    } else {
      const item = makeCase(id, `j${pick(6)}`, fields);
      await store.table("Case").insert(item);
      model.set(id, item);
    }
    if (round % 5 > 0) continue;
    const field = (["created_at", "name", "total_cost", "status"] as const)[pick(4)]!;
    const [one, other, part] = [STATUSES[pick(4)]!, STATUSES[pick(4)]!, ["e", "a", "in", "none"][pick(4)]!];
    const [status, hasStatus] = (
      [
        [one, (value: string) => value === one],
        [[one, other], (value: string) => value === one || value === other],
        [{ contains: part }, (value: string) => value.includes(part)],
      ] as const
    )[pick(3)]!;
    const [sign, skip, cost] = [pick(2) === 0 ? 1 : -1, pick(12), pick(3)];
    const sort = `${sign < 0 ? "-" : ""}${field}`;
    const where = { status, ...(cost > 0 && { total_cost: { gte: cost } }) };
    const page = await store.table("Case").list({ where, sort, limit: 10, skip });
    const expected = [...model.values()]
      .filter((item) => hasStatus(item.status) && item.total_cost >= cost)
      .sort((a, b) => sign * compare(a[field], b[field]) || compare(a.id, b.id));
    assert.equal(page.total, expected.length);
    assert.deepEqual(page.items, expected.slice(skip, skip + 10));
  }
}

function compare(a: string | number, b: string | number): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
