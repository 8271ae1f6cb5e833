// @long
// @area core
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf, gate } from "../runs/_agent.ts";
import { startJob } from "../runs/_jobs.ts";
import { API_KEY, startOnDatabase } from "./_database.ts";

/** Longer than what an instance does now and then. */
const IDLE = 16_000;
const STREAMS = 300;

interface Statement {
  readonly query: string;
  readonly calls: number;
  readonly buffers: number;
}

requirement("postgres").describe("an instance on Postgres that has nothing to do", () => {
  it("sends at most two statements a second, with agents, an admin interface, and other instances", async () => {
    const cluster = await startCluster();
    const agents = ["one", "two", "three"].map((name) => agentOf(() => "done", { name }));
    const options = { agents, admin: true };
    for (let instance = 0; instance < 3; instance++)
      await startOnDatabase({ url: cluster.url, schema: "s" }, options);

    const statements = await statementsOf(cluster);

    const calls = statements.reduce((sum, one) => sum + one.calls, 0);
    expect(calls / 3 / (IDLE / 1000), JSON.stringify(statements, null, 1)).toBeLessThanOrEqual(2);
  });

  it(`reads the ${STREAMS} jobs that streams follow in few statements`, async () => {
    const cluster = await startCluster();
    const { opened, open } = gate();
    const { service, url } = await startOnDatabase(
      { url: cluster.url, schema: "s" },
      { agents: [agentOf(() => opened)], maxConcurrentJobs: STREAMS },
    );
    onTestFinished(open);
    const headers = { authorization: `Bearer ${API_KEY}` };
    const over = new AbortController();
    onTestFinished(() => over.abort());
    for (let at = 0; at < STREAMS; at++) {
      const { id } = await startJob(service);
      const response = await fetch(`${url}/jobs/${id}/stream`, { headers, signal: over.signal });
      response.body!.pipeTo(new WritableStream()).catch(() => {});
    }

    const statements = await statementsOf(cluster);

    const polls = statements.filter(({ query }) => /_log|unnest/.test(query));
    expect(polls.length).toBeGreaterThan(0);
    // Each of the two polls of everything is one statement for all, every other second.
    for (const { calls, query } of polls) expect(calls, query).toBeLessThanOrEqual(IDLE / 2000 + 1);
  });
});

async function startCluster(): Promise<Cluster> {
  const cluster = new Cluster();
  onTestFinished(() => cluster.close());
  await cluster.start();
  await cluster.query("create extension pg_stat_statements");
  return cluster;
}

/** What the server is asked for while nothing happens. */
async function statementsOf(cluster: Cluster): Promise<Statement[]> {
  await delay(3000);
  await cluster.query("select pg_stat_statements_reset()");
  await delay(IDLE);
  return cluster.query<Statement>(
    `select query, calls::int, ((shared_blks_hit + shared_blks_read) / calls)::int as buffers
     from pg_stat_statements where toplevel and query not like '%pg_stat_statements%' order by calls desc`,
  );
}
