// @area core
import { expect, it, onTestFinished } from "vitest";
import { Cluster, openClient, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { startOnDatabase } from "./_database.ts";

type Admin = (text: string) => Promise<unknown>;

async function lockJobs(): Promise<() => Promise<unknown>> {
  const client = await openClient(await sharedCluster());
  await client.query(`begin; lock table ${SCHEMA}."Job"`);
  return () => client.query("commit");
}

const SCHEMA = "refusing_service";

/** The function that the running service commits with is gone, as when a newer version has replaced it. */
async function renameCommit(admin: Admin): Promise<() => Promise<unknown>> {
  const rename = (from: string, to: string) =>
    admin(`do $$ declare f record; begin
      for f in select p.oid::regprocedure as name, p.proname as own from pg_proc p
        where pronamespace = '${SCHEMA}'::regnamespace and proname like '${from}%' loop
        execute format('alter function %s rename to %I', f.name, replace(f.own, '${from}', '${to}'));
      end loop; end $$`);
  await rename("_commit", "_gone");
  return () => rename("_gone", "_commit");
}

async function fillDisk(admin: Admin): Promise<() => Promise<unknown>> {
  await admin(`create function ${SCHEMA}.refuse() returns trigger language plpgsql as $$
      begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
    create trigger refuse before insert on ${SCHEMA}."Job" for each row execute function ${SCHEMA}.refuse()`);
  return () => admin(`drop function ${SCHEMA}.refuse cascade`);
}

async function start(cluster: Cluster) {
  onTestFinished(async () => void (await cluster.query(`drop schema ${SCHEMA} cascade`)));
  const { service, url } = await startOnDatabase(
    { url: cluster.url, schema: SCHEMA },
    { agents: [agentOf(() => "done")] },
  );
  await until(service, (await startJob(service)).id);
  const health = () => fetch(`${url}/.well-known/health`).then(({ status }) => status);
  expect(await health()).toBe(200);
  return { service, health };
}

requirement("postgres").describe("a service whose database refuses writes", () => {
  it.each([
    ["a table is locked", lockJobs, true],
    ["a newer version has replaced the function that writes", renameCommit, false],
    ["its disk is full", fillDisk, true],
  ])("is unhealthy while %s, and healthy again once it is gone", async (_, refuse, needsWrite) => {
    const cluster = await sharedCluster();
    const { service, health } = await start(cluster);

    const accept = await refuse((text) => cluster.query(text));
    const started = needsWrite && startJob(service).catch((error: Error) => error);
    await expect.poll(health, { timeout: 15_000 }).toBe(503);
    await accept();

    await expect.poll(health, { timeout: 15_000 }).toBe(200);
    await started;
    const { id } = await startJob(service);
    expect(await until(service, id)).toMatchObject({ status: "completed" });
  });

  it("is unhealthy while its server is read-only, though nobody writes", async () => {
    const cluster = new Cluster();
    onTestFinished(() => cluster.close());
    await cluster.start();
    const { service, health } = await start(cluster);
    await cluster.query("alter system set default_transaction_read_only = on");
    await cluster.query("select pg_reload_conf()");

    await expect.poll(health, { timeout: 15_000 }).toBe(503);
    await cluster.query("alter system reset default_transaction_read_only");
    await cluster.query("select pg_reload_conf()");

    await expect.poll(health, { timeout: 15_000 }).toBe(200);
    const { id } = await startJob(service);
    expect(await until(service, id)).toMatchObject({ status: "completed" });
  });
});
