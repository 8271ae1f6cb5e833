// @long
// @area core
import { readFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { Cluster, openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { DatabaseName, startOnDatabase } from "./_database.ts";

/** A server, and a standby that follows it. */
async function startPair(): Promise<[primary: Cluster, standby: Cluster]> {
  const primary = new Cluster();
  const standby = new Cluster();
  onTestFinished(async () => {
    await Promise.all([primary.close(), standby.close()]);
  });
  await primary.start();
  await standby.follow(primary);
  await standby.start();
  return [primary, standby];
}

const insert = (store: Store, id: string) =>
  store
    .table("Job")
    .insert(makeJob(id))
    .then(
      () => "stored",
      (error: Error) => error.message,
    );

requirement("postgres").describe("a database whose name points at another server", () => {
  it("is written to again within seconds, after its name has pointed at a standby for a while", async () => {
    const [primary, standby] = await startPair();
    const name = await DatabaseName.of(primary);
    const { service, url } = await startOnDatabase(
      { url: name.url, schema: "s" },
      { agents: [agentOf(() => "done")] },
    );
    const health = () => fetch(`${url}/.well-known/health`).then(({ status }) => status);
    await until(service, (await startJob(service)).id);

    name.pointAt(standby);
    name.break();
    await expect.poll(health, { timeout: 5000 }).toBe(503);
    await expect(startJob(service)).rejects.toMatchObject({ type: "storage_error" });
    // New connections alone get to the primary, as after a change of a DNS record.
    name.pointAt(primary);

    await expect.poll(health, { timeout: 5000 }).toBe(200);
    const { id } = await startJob(service);
    expect(await until(service, id)).toMatchObject({ status: "completed", result: "done" });
  });

  it("is read from its new primary once the standby is promoted", async () => {
    const [primary, standby] = await startPair();
    const name = await DatabaseName.of(primary);
    const [store] = (await openStores(1, { cluster: primary, url: name.url, schema: "s" })) as [Store];
    await expect.poll(() => insert(store, "a")).toBe("stored");

    name.pointAt(standby);
    await primary.stop("INT");
    await expect.poll(() => store.health().writable).toBe(false);
    await expect.poll(() => insert(store, "b")).toContain("the server is a standby");
    await standby.query("select pg_promote()");

    await expect.poll(() => insert(store, "c"), { timeout: 5000 }).toBe("stored");
    expect((await store.table("Job").ids()).toSorted()).toEqual(["a", "c"]);
    expect(store.health()).toEqual({ writable: true });
  });

  it("replaces all connections to a server that was made read-only when its data went to another one", async () => {
    const [primary, standby] = await startPair();
    const name = await DatabaseName.of(primary);
    const [store] = (await openStores(1, { cluster: primary, url: name.url, schema: "s" })) as [Store];
    expect(await insert(store, "a")).toBe("stored");
    const followed = () => standby.query(`select id from s."Job"`).catch(() => []);
    await expect.poll(followed).toEqual([{ id: "a" }]);
    await standby.query("select pg_promote()");
    await expect.poll(() => standby.query("select pg_is_in_recovery() as is")).toEqual([{ is: false }]);

    // The old server keeps its connections, and answers reads with what it had.
    name.pointAt(standby);
    await primary.query("alter system set default_transaction_read_only = on");
    await primary.query("select pg_reload_conf()");
    // The server reads its settings a moment later; until then it stores what it gets.
    await expect
      .poll(() => primary.query("show default_transaction_read_only"))
      .toEqual([{ default_transaction_read_only: "on" }]);
    await expect.poll(() => insert(store, "b"), { timeout: 5000 }).toBe("stored");

    expect(await standby.query(`select id from s."Job" order by id`)).toEqual([{ id: "a" }, { id: "b" }]);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => store.table("Job").ids({ sort: "id" })),
    );
    expect(answers).toEqual(answers.map(() => ["a", "b"]));
  });

  it("refuses to start on a standby, and says what to do", async () => {
    const [, standby] = await startPair();
    expect(readFileSync(`${standby.folder}/log`, "utf8")).toContain("read-only connections");

    await expect(openStores(1, { cluster: standby, schema: "s" })).rejects.toMatchObject({
      message: expect.stringContaining("the server is a standby"),
      detail: expect.stringContaining("Connect to the primary"),
    });
  });
});
