import { expect, it, onTestFinished } from "vitest";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const { describe } = requirement("postgres");

let count = 0;

/** A store in a database of its own, as a user who owns nothing in it. */
async function openLimited() {
  const cluster = await sharedCluster();
  const name = `refusing_${++count}`;
  await cluster.query(`create database ${name}`);
  const url = cluster.url.replace("/postgres?", `/${name}?`);
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const context = { tables: CORE_TABLES, dataDir: "", log: { info: write, warn: write, error: write } };
  await (await postgres({ url, schema: "s" })(context)).close();
  const user = `user_${count}`;
  const admin = (text: string) => cluster.query(text, url);
  await admin(`create role ${user} login; grant usage, create on schema s to ${user};
    grant all on all tables in schema s to ${user}; grant all on all sequences in schema s to ${user}`);
  const store = await postgres({ url: url.replace("svc@", `${user}@`), schema: "s" })(context);
  onTestFinished(async () => {
    await store.close();
    await cluster.query(`drop database ${name} with (force)`);
    await cluster.query(`drop role ${user}`);
  });
  lines.length = 0;
  /** Ends the store's connections, and waits for their end: a write that is sent on one of them would be lost with it. */
  const leave = async () => {
    const ended = await cluster.query<{ pid: number }>(
      `select pid, pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
    );
    const pids = ended.map(({ pid }) => pid).join(", ");
    const isLeft = async () =>
      (await cluster.query(`select pid from pg_stat_activity where pid in (${pids || "0"})`)).length > 0;
    await expect.poll(isLeft).toBe(false);
  };
  return { store, lines, admin, name, user, leave };
}

const insert = (store: Store, id: string) => store.table("Job").insert(makeJob(id));

describe("Postgres that refuses writes", () => {
  it("a database that becomes read-only is not writable until it no longer is, even without a write", async () => {
    const { store, lines, admin, name, leave } = await openLimited();
    await insert(store, "a");

    await admin(`alter database ${name} set default_transaction_read_only = on`);
    await leave();
    await expect
      .poll(() => insert(store, "b").catch((error: Error) => error.message))
      .toContain("The database refuses: cannot execute");
    const { writable, error } = store.health();
    const again = await insert(store, "b").catch((error: Error) => error.message);
    const read = await store.table("Job").get("a");

    expect([writable, error]).toEqual([false, expect.stringContaining("Connect to the primary")]);
    expect(again).toContain("The database refuses");
    expect(read?.id).toBe("a");
    await admin(`begin read write; alter database ${name} reset default_transaction_read_only; commit`);
    await expect.poll(() => store.health(), { timeout: 5000 }).toEqual({ writable: true });
    await insert(store, "b");
    expect(lines.filter((line) => line.includes("writes"))).toEqual([
      "the database refuses writes",
      "the database accepts writes again",
    ]);
  });

  it("a right that is taken away shows until it is back, also while other writes succeed", async () => {
    const { store, lines, admin, user } = await openLimited();
    await insert(store, "a");

    await admin(`revoke insert on s."Job" from ${user}`);
    await expect(insert(store, "b")).rejects.toThrow("permission denied");
    const refused = store.health();
    await store.log("Run").append("a", makeEntry("another"));

    expect(refused).toMatchObject({ writable: false, error: expect.stringContaining("lacks a right") });
    expect(store.health()).toEqual(refused);
    await admin(`grant insert on s."Job" to ${user}`);
    await expect.poll(() => store.health(), { timeout: 5000 }).toEqual({ writable: true });
    expect(await store.table("Job").get("b")).toBeUndefined();
    await insert(store, "b");
    expect(lines.filter((line) => line.includes("writes"))).toHaveLength(2);
  });

  it("no room on its disk shows until there is some", async () => {
    const { store, admin } = await openLimited();
    await admin(`create function s.refuse() returns trigger language plpgsql as $$
      begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
      create trigger refuse before insert on s."Job" for each row execute function s.refuse()`);

    await expect(insert(store, "a")).rejects.toThrow("No space left");

    expect(store.health().error).toContain("make room there");
    await admin(`drop trigger refuse on s."Job"`);
    await expect.poll(() => store.health(), { timeout: 5000 }).toEqual({ writable: true });
  });

  it.each(["22001", "22P05", "23514", "23505", "54000", "P0001"])(
    "content that is refused (%s) says nothing of the database",
    async (code) => {
      const { store, lines, admin } = await openLimited();
      await admin(`create function s.refuse() returns trigger language plpgsql as $$
        begin if new.id = 'bad' then raise exception 'no' using errcode = '${code}'; end if; return new; end $$;
        create trigger refuse before insert on s."Job" for each row execute function s.refuse()`);

      const [bad, good] = await Promise.allSettled([insert(store, "bad"), insert(store, "good")]);

      expect([bad.status, good.status]).toEqual(["rejected", "fulfilled"]);
      expect(store.health()).toEqual({ writable: true });
      expect(lines).toEqual([]);
    },
  );
});
