// @long
import { beforeAll, expect, it } from "vitest";
import { Cases } from "../../src/core/entities/cases.ts";
import { Jobs } from "../../src/core/entities/jobs.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const OWN = 20;
/** Jobs of others, each with one case. */
const OTHERS = [1000, 20_000];
/** Pages of the database, of 8 kB, that a statement may touch: those of a few entities, found by indexes. */
const MOST = 400;
const SIGHTS = [{ workspace: "acme" }, { agents: ["own"] }, { startedBy: "key-1" }];

requirement("postgres").describe("the cases of a caller who sees a part, on Postgres", () => {
  const cluster = new Cluster();
  let store: Store;

  beforeAll(async () => {
    await cluster.start();
    await cluster.query("create extension pg_stat_statements");
    const log = { info() {}, warn() {}, error() {} };
    store = await postgres({ url: cluster.url, schema: "s" })({ tables: CORE_TABLES, dataDir: "", log });
    for (let n = 0; n < OWN; n++) await put(`own-${n}`, { agent_name: "own", access: "key-1" }, "acme");
    await put("other", { agent_name: "other" }, "other");
    return async () => {
      await store.close();
      await cluster.close();
    };
  }, 120_000);

  async function put(id: string, job: object, workspace_id: string): Promise<void> {
    const made = makeJob(id, job);
    const job_context = { ...made.job_context, workspace_id };
    await store.table("Job").insert({ ...made, job_context });
    await store.table("Case").insert(makeCase(`case-${id}`, id));
  }

  it.each(OTHERS)("are read and counted without those of %d jobs of others", async (others) => {
    for (const [table, id] of [
      ["Job", "other"],
      ["Case", "case-other"],
    ]) {
      const columns = await cluster.query<{ name: string }>(
        `select attname as name from pg_attribute
         where attrelid = 's."${table}"'::regclass and attnum > 0 and not attisdropped order by attnum`,
      );
      const values: Record<string, string> = {
        id: `'${id}-' || n`,
        ...(table === "Case" && { job_id: "'other-' || n" }),
        _body: `replace(o._body, '"${id}"', '"${id}-' || n || '"')`,
      };
      const selected = columns.map(({ name }) => values[name] ?? `o."${name}"`).join(", ");
      await cluster.query(
        `insert into s."${table}" select ${selected} from s."${table}" o, generate_series(1, ${others}) n
         where o.id = '${id}' on conflict do nothing`,
      );
    }
    await cluster.query("vacuum analyze");
    for (const sight of SIGHTS) {
      const jobs = new Jobs(store).seenBy(sight);
      const cases = new Cases(store).seenBy(sight, jobs);
      await cluster.query("select pg_stat_statements_reset()");
      expect(await cases.countBy("status")).toEqual({ in_progress: OWN });
      expect((await cases.list({ limit: 5 })).total).toBe(OWN);
      expect(await cases.ids({ where: { status: "in_progress" } })).toHaveLength(OWN);
      const read = await cluster.query<{ query: string; buffers: number; rows: number }>(
        `select query, ((shared_blks_hit + shared_blks_read) / calls)::int as buffers, (rows / calls)::int as rows
         from pg_stat_statements where toplevel and query like '%"Case"%'`,
      );
      expect(read.length).toBeGreaterThan(2);
      // The database finds the jobs: their ids are not read first. What counts jobs by hour meanwhile reads one row.
      const ids = await cluster.query(
        `select query from pg_stat_statements where query like '%"Job"%' and query not like '%"Case"%' and toplevel
         and query not like '%pg_stat_statements%' and rows > calls`,
      );
      expect(ids).toEqual([]);
      for (const { query, buffers, rows } of read) {
        expect(buffers, `${JSON.stringify(sight)} ${query}`).toBeLessThan(MOST);
        expect(rows).toBeLessThanOrEqual(OWN);
      }
    }
  });
});
