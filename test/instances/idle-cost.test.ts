// @long
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { startOnDatabase } from "./_database.ts";

const ENDED = 50_000;
/** Longer than what an instance does now and then. */
const IDLE = 16_000;

interface Statement {
  readonly query: string;
  readonly calls: number;
  readonly buffers: number;
}

requirement("postgres").describe("an instance on Postgres that has nothing to do", () => {
  it(`reads few pages a statement beside ${ENDED} ended jobs`, async () => {
    const cluster = new Cluster();
    onTestFinished(() => cluster.close());
    await cluster.start();
    await cluster.query("create extension pg_stat_statements");
    const { service } = await startOnDatabase(
      { url: cluster.url, schema: "s" },
      { agents: [agentOf(() => "done")] },
    );
    const { id } = await startJob(service);
    await until(service, id);
    await cluster.query(`
      insert into s."Job" select (jsonb_populate_record(j, jsonb_build_object(
          'id', 'made-' || n, '_body', replace(j._body, '"${id}"', '"made-' || n || '"')))).*
        from s."Job" j, generate_series(1, ${ENDED}) n;
      analyze`);
    await delay(3000);
    await cluster.query("select pg_stat_statements_reset()");
    await delay(IDLE);

    const statements = await cluster.query<Statement>(
      `select query, calls::int, ((shared_blks_hit + shared_blks_read) / calls)::int as buffers
       from pg_stat_statements where toplevel and query not like '%pg_stat_statements%' order by calls desc`,
    );

    expect(statements.length).toBeGreaterThan(5);
    expect(statements.filter(({ buffers }) => buffers > 100)).toEqual([]);
  }, 120_000);
});
