// @area core
import { expect, it, onTestFinished } from "vitest";
import { RUNNER, STORE } from "../../src/core/service/tokens.ts";
import { borrowSchema, type Cluster, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf, gate } from "../runs/_agent.ts";
import { jobContext } from "../runs/_jobs.ts";
import { DatabaseName, startOnDatabase } from "./_database.ts";

const JOBS = 500;

/** Has the server count the transactions that change the owner of a job which runs. */
async function countOwners(cluster: Cluster, schema: string): Promise<() => Promise<number>> {
  await cluster.query(`
    create table ${schema}.changes (tx bigint);
    create function ${schema}.note() returns trigger language plpgsql as $$ begin
      insert into ${schema}.changes values (txid_current()); return new; end $$;
    create trigger note after update on ${schema}."Job" for each row
      when (old._body::json->>'owner' is distinct from new._body::json->>'owner') execute function ${schema}.note()`);
  onTestFinished(
    async () =>
      void (await cluster.query(`drop function ${schema}.note cascade; drop table ${schema}.changes`)),
  );
  return async () => {
    const [row] = await cluster.query<{ n: number }>(
      `select count(distinct tx)::int as n from ${schema}.changes`,
    );
    return row!.n;
  };
}

/** Statements so far that read logs, or jobs by their ids. */
async function countReads(cluster: Cluster, schema: string): Promise<number> {
  await cluster.query("create extension if not exists pg_stat_statements");
  const [row] = await cluster.query<{ n: number }>(
    `select coalesce(sum(calls), 0)::int as n from pg_stat_statements
     where toplevel and query like '%"${schema}"._log%' and query not like '%_commit%'`,
  );
  return row!.n;
}

/** Jobs that are in a step at the first of two instances. */
async function startJobs(isKilled: boolean) {
  const cluster = await sharedCluster();
  const schema = await borrowSchema(cluster);
  const name = await DatabaseName.of(cluster);
  const held = gate();
  const begun = { one: 0, other: 0 };
  const start = (where: keyof typeof begun, url: string) =>
    startOnDatabase(
      { url, schema },
      {
        agents: [
          agentOf(({ job }) =>
            job.step("long", async () => {
              begun[where]++;
              await held.opened;
            }),
          ),
        ],
        ...{
          maxConcurrentJobs: JOBS + 50,
          maxQueuedJobs: JOBS + 50,
          shutdownGrace: 0,
          suspendAfter: false,
        },
      },
    );
  const one = await start("one", isKilled ? name.url : cluster.url);
  const runner = one.service.get(RUNNER);
  await Promise.all(
    Array.from({ length: JOBS }, (_, n) =>
      runner.start("worker", { job_context: jobContext(`job-${n}`), job_fields: {} }),
    ),
  );
  await expect.poll(() => begun.one, { timeout: 30_000 }).toBe(JOBS);
  const other = await start("other", cluster.url);
  onTestFinished(async () => {
    held.open();
    await name.restore();
  });
  const owners = await countOwners(cluster, schema);
  const reads = await countReads(cluster, schema);
  const jobs = other.service.get(STORE).table("Job");
  return {
    ...{ one, begun, owners, name, jobs, id: other.service.get(RUNNER).instance! },
    reads: async () => (await countReads(cluster, schema)) - reads,
  };
}

requirement("postgres").describe(`${JOBS} jobs of one instance`, () => {
  it("are given up and claimed in five transactions when it closes", async () => {
    const { one, begun, owners, jobs, id } = await startJobs(false);

    await one.service.close();

    const owned = () => jobs.ids({ where: { owner: id }, limit: JOBS }).then(({ length }) => length);
    await expect.poll(owned, { timeout: 30_000 }).toBe(JOBS);
    expect(await owners()).toBeLessThanOrEqual(5);
    await expect.poll(() => begun.other, { timeout: 30_000 }).toBe(JOBS);
  });

  it("are claimed in five transactions, and run side by side, when it is cut off without a word", async () => {
    const { begun, owners, jobs, id, name, reads } = await startJobs(true);

    await name.cut();

    const owned = () => jobs.ids({ where: { owner: id }, limit: JOBS }).then(({ length }) => length);
    await expect.poll(owned, { timeout: 60_000 }).toBe(JOBS);
    expect(await owners()).toBeLessThanOrEqual(5);
    await expect.poll(() => begun.other, { timeout: 60_000 }).toBe(JOBS);
    // Their logs are read at the claim and at the start of the run.
    expect(await reads()).toBeLessThanOrEqual(25);
  }, 180_000);
});
