import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { logKey } from "../../src/core/store/postgres/attempt.ts";
import { lockOf } from "../../src/core/store/postgres/group.ts";
import { FencedError, type Store } from "../../src/core/store/store.ts";
import { Cluster, openClient, openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const { describe } = requirement("postgres");

describe("Postgres, sent a group of writes while it works on the one before", () => {
  it("has the next group before it has answered the last one, and ends them in their order", async () => {
    const { store, hold, groups } = await openHeld();
    const order: string[] = [];
    const append = (key: string) =>
      store.transaction((tx) => tx.append("Run", key, makeEntry(key))).then(() => order.push(key));
    const release = await hold("a");
    const sent = groups();

    const first = append("a");
    await expect.poll(groups).toBe(sent + 1);
    const second = append("b");
    await expect.poll(groups).toBe(sent + 2);
    // Not before one of them is over.
    const third = append("c");
    const fourth = append("d");
    expect(order).toEqual([]);
    await release();
    await Promise.all([first, second, third, fourth]);

    expect(order).toEqual(["a", "b", "c", "d"]);
    expect(groups()).toBe(sent + 3);
  });

  it("stores nothing that is built on a write of the group before which it did not store", async () => {
    const { store, hold, groups, schema, cluster } = await openHeld();
    await store.table("Job").insert(makeJob("a", { run_count: 1 }));
    const release = await hold("a");
    const sent = groups();
    let runs = 0;

    const claim = store
      .transaction(async (tx) => {
        await tx.append("Run", "a", makeEntry("claim"));
        if (++runs > 1) throw new Error("somebody else has it");
        await tx.change("Job", "a", (job) => ({ ...job, run_count: 2 }));
      })
      .catch((error: unknown) => error);
    await expect.poll(groups).toBe(sent + 1);
    const step = store
      .transaction((tx) => tx.append("Run", "b", makeEntry("step")), { fence: { job: "a", epoch: 2 } })
      .catch((error: unknown) => error);
    await expect.poll(groups).toBe(sent + 2);
    // Another instance does, of which this one has not heard.
    await cluster.query(
      `insert into ${schema}._log (log, key, seq, body) values ('Run', 'a', 1, '${JSON.stringify(makeEntry("other"))}')`,
    );
    await release();

    expect(await claim).toMatchObject({ message: "somebody else has it" });
    expect(await step).toBeInstanceOf(FencedError);
    expect(await store.log("Run").read("b")).toEqual([]);
    expect(await store.log("Run").read("a")).toHaveLength(1);
  });

  it("refuses a group whose group before it was refused, and writes it then", async () => {
    const { store, hold, groups, schema, cluster } = await openHeld();
    await store.table("Job").insert(makeJob("a"));
    await cluster.query(`alter table ${schema}."Job" add constraint never_b check (id <> 'b')`);
    const release = await hold("a");
    const sent = groups();
    const write = (id: string) =>
      store.transaction(async (tx) => {
        await tx.insert("Job", makeJob(id));
        return tx.append("Run", id === "b" ? "a" : id, makeEntry(id));
      });

    const bad = write("b").catch((error: unknown) => error);
    await expect.poll(groups).toBe(sent + 1);
    const good = write("c");
    await expect.poll(groups).toBe(sent + 2);
    await release();

    expect(await bad).toMatchObject({ type: "storage_error" });
    expect(await good).toBe(1);
    expect(await store.table("Job").get("b")).toBeUndefined();
    expect((await store.table("Job").get("c"))?.id).toBe("c");
    // Those that follow are stored, too, and once.
    await Promise.all(["d", "e", "f"].map(write));
    expect(await store.log("Run").read("c")).toHaveLength(1);
  });

  it.each(["before it is written", "after it is written"])(
    "stores both groups once where the connection breaks %s",
    async (when) => {
      const { store, hold, groups, cut } = await openHeld();
      const append = (key: string) => store.transaction((tx) => tx.append("Run", key, makeEntry(key)));
      const release = await hold("a");
      const sent = groups();

      const first = append("a");
      await expect.poll(groups).toBe(sent + 1);
      const second = append("b");
      await expect.poll(groups).toBe(sent + 2);
      cut();
      if (when === "after it is written") await release();
      else setTimeout(() => void release(), 200);

      expect(await Promise.all([first, second])).toEqual([1, 1]);
      for (const key of ["a", "b"]) expect(await store.log("Run").read(key)).toHaveLength(1);
      expect(await append("b")).toBe(2);
    },
  );
});

/** A store behind a network that counts the groups that are sent, on a server that can be held up. */
async function openHeld() {
  const cluster = new Cluster();
  onTestFinished(() => cluster.close());
  await cluster.start();
  const sockets = new Set<Socket>();
  const isWriter = new Set<Socket>();
  let groups = 0;
  let prepared: string | undefined;
  const server = createServer((client) => {
    const upstream = connect(join(cluster.folder, ".s.PGSQL.5432"));
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    client.on("data", (data) => {
      const text = data.toString("latin1");
      prepared ??= /(svc_\w+)\0[^\0]*\."_commit:/.exec(text)?.[1];
      // Each is bound once: its name is behind that of the portal, which has none.
      const found = prepared === undefined ? 0 : text.split(`\0${prepared}\0`).length - 1;
      if (found > 0) isWriter.add(client);
      groups += found;
      upstream.write(data);
    });
    upstream.on("data", (data) => client.write(data));
    client.on("close", () => upstream.end());
    upstream.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as { port: number };
  const schema = "s";
  const url = `postgres://svc@127.0.0.1:${port}/postgres`;
  const [store] = (await openStores(1, { url, cluster, schema })) as [Store];
  // The statement is prepared then, and the connection known as one that takes several.
  await store.transaction((tx) => tx.append("Run", "warm", makeEntry("warm")));
  const holder = await openClient(cluster);
  return {
    ...{ store, schema, cluster },
    groups: () => groups,
    /** Holds up what appends to the log of a job, until it is released. */
    hold: async (key: string) => {
      const lock = lockOf(`l${logKey("Run", key)}`);
      await holder.query("select pg_advisory_lock($1)", [lock]);
      return async () => {
        await holder.query("select pg_advisory_unlock($1)", [lock]);
      };
    },
    cut: () => {
      for (const socket of isWriter) socket.destroy();
    },
  };
}
