import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { isServiceError } from "../../src/core/base/errors.ts";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { Cluster, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const { describe } = requirement("postgres");

describe("Postgres that does not answer", () => {
  it("a server that is killed and starts again has all that was acknowledged, once", async () => {
    const cluster = new Cluster({ isDurable: true });
    onTestFinished(() => cluster.close());
    await cluster.start();
    const [store] = (await openStores(1, { cluster, schema: "s" })) as [Store];
    const acknowledged: string[] = [];
    let isOver = false;
    const writer = async (name: string) => {
      await store.table("Job").insert(makeJob(name));
      for (let number = 0; !isOver; number++) {
        const text = `${name} ${number}`;
        const write = store.transaction(async (tx) => {
          await tx.change("Job", name, (job) => ({ ...job, case_count: job.case_count + 1 }));
          await tx.append("Run", name, makeEntry(text));
        });
        await write.then(
          () => acknowledged.push(text),
          async (error: unknown) => {
            expect(isServiceError(error) && error.type).toBe("storage_error");
            await delay(20);
          },
        );
      }
    };
    const names = Array.from({ length: 8 }, (_, number) => `w${number}`);
    const writers = names.map(writer);

    for (let round = 0; round < 3; round++) {
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length).toBeGreaterThan(before + 50);
      await cluster.stop("QUIT");
      await expect.poll(() => store.health().writable).toBe(false);
      await cluster.start();
    }
    const before = acknowledged.length;
    await expect.poll(() => acknowledged.length).toBeGreaterThan(before + 50);
    isOver = true;
    await Promise.all(writers);

    const stored: string[] = [];
    for (const name of names) {
      const lines = await store.log("Run").read(name);
      stored.push(...lines.map(({ entry }) => (entry as { message: string }).message));
      expect((await store.table("Job").get(name))?.case_count).toBe(lines.length);
    }
    expect(stored.sort()).toEqual(acknowledged.sort());
    expect(store.health().writable).toBe(true);
  });

  it("a write whose answer is lost is stored once, and reported as stored", async () => {
    const proxy = await openProxy();
    const [store] = (await openStores(1, { url: proxy.url })) as [Store];
    await store.table("Job").insert(makeJob("a"));

    proxy.next = "lose answer";
    let runs = 0;
    const number = await store.transaction(async (tx) => {
      runs++;
      return tx.append("Run", "a", makeEntry("once"));
    });

    expect(proxy.next).toBe("pass");
    expect([number, runs]).toEqual([1, 1]);
    expect(await store.log("Run").read("a")).toHaveLength(1);
    expect(store.health().writable).toBe(true);
  });

  it("a write that is lost before it arrives is written again, once", async () => {
    const proxy = await openProxy();
    const [store] = (await openStores(1, { url: proxy.url })) as [Store];
    await store.table("Job").insert(makeJob("a"));

    proxy.next = "lose statement";
    const number = await store.transaction((tx) => tx.append("Run", "a", makeEntry("once")));

    expect(proxy.next).toBe("pass");
    expect(number).toBe(1);
    expect(await store.log("Run").read("a")).toHaveLength(1);
  });

  it("a write that arrives after it was given up is refused", async () => {
    const proxy = await openProxy();
    const [store] = (await openStores(1, { url: proxy.url })) as [Store];
    await store.table("Job").insert(makeJob("a"));

    proxy.next = "delay statement";
    await store.transaction((tx) => tx.append("Run", "a", makeEntry("again")));
    await proxy.deliver();

    expect(await store.log("Run").read("a")).toEqual([{ seq: 1, entry: makeEntry("again") }]);
    expect(await store.transaction((tx) => tx.append("Run", "a", makeEntry("next")))).toBe(2);
  });

  it("requests fail with a clear error that has no password in it", async () => {
    const proxy = await openProxy();
    const url = proxy.url.replace("svc@", "svc:secret-of-the-database@");
    const [store] = (await openStores(1, { url })) as [Store];
    await store.table("Job").insert(makeJob("a"));

    await proxy.cut();
    const errors = [
      await store
        .table("Job")
        .get("a")
        .catch((error: unknown) => error),
      await store
        .table("Job")
        .insert(makeJob("b"))
        .catch((error: unknown) => error),
    ];

    for (const error of errors) {
      expect(error).toMatchObject({ type: "storage_error" });
      expect((error as Error).message).toContain("The database does not answer");
      expect(JSON.stringify([error, (error as Error).message, (error as Error).cause])).not.toContain(
        "secret-of",
      );
    }
    expect(store.health().error).toContain("The database does not answer");
    await proxy.listen();
    await expect.poll(() => store.health().writable).toBe(true);
    expect((await store.table("Job").get("a"))?.id).toBe("a");
    await store.table("Job").insert(makeJob("b"));
  });
});

type Fate = "pass" | "lose answer" | "lose statement" | "delay statement";

/** A network between a store and the shared server that loses what `next` says of the next group. */
async function openProxy() {
  const { folder } = await sharedCluster();
  const sockets = new Set<Socket>();
  let late: (() => Promise<void>) | undefined;
  /** The name of the statement that writes a group, once it is prepared. */
  let prepared: string | undefined;
  let server: Server;
  const proxy = {
    url: "",
    next: "pass" as Fate,
    /** Delivers the delayed statement, and waits for its answer. */
    deliver: () => late!(),
    cut: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
    listen: async () => {
      const { port } = new URL(proxy.url || "http://localhost:0");
      server = createServer(accept);
      await new Promise<void>((resolve) => server.listen(Number(port), "127.0.0.1", resolve));
      const { port: own } = server.address() as { port: number };
      proxy.url = `postgres://svc@127.0.0.1:${own}/postgres`;
    },
  };
  const accept = (client: Socket) => {
    const upstream = connect(join(folder, ".s.PGSQL.5432"));
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => {});
    }
    client.on("data", (data) => {
      prepared ??= /(svc_\w+)\0[^\0]*\."_commit:/.exec(data.toString("latin1"))?.[1];
      const isCommit = data.includes('."_commit:') || (prepared !== undefined && data.includes(prepared));
      if (proxy.next === "pass" || !isCommit) return void upstream.write(data);
      const fate = proxy.next;
      proxy.next = "pass";
      if (fate === "lose answer") {
        upstream.removeAllListeners("data");
        upstream.once("data", () => client.destroy());
        upstream.write(data);
        return;
      }
      client.destroy();
      if (fate === "lose statement") return void upstream.destroy();
      late = async () => {
        upstream.removeAllListeners("data");
        const answer = new Promise((resolve) => upstream.once("data", resolve));
        upstream.write(data);
        await answer;
      };
    });
    upstream.on("data", (data) => client.write(data));
    client.on("close", () => late === undefined && upstream.end());
    upstream.on("close", () => client.destroy());
  };
  await proxy.listen();
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return proxy;
}
