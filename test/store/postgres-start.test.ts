import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { isClearText } from "../../src/core/store/postgres/postgres-options.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { DatabaseName } from "../instances/_database.ts";

let count = 0;

/** A database of its own with a user who owns nothing, and what opening a store there says. */
async function newDatabase() {
  const cluster = await sharedCluster();
  const name = `starting_${++count}`;
  const user = `starter_${count}`;
  await cluster.query(`create database ${name}`);
  await cluster.query(`create role ${user} login`);
  onTestFinished(async () => {
    await cluster.query(`drop database ${name} with (force)`);
    await cluster.query(`drop role ${user}`);
  });
  const admin = (text: string) => cluster.query(text, cluster.url.replace("/postgres?", `/${name}?`));
  const url = cluster.url.replace("/postgres?", `/${name}?`).replace("svc@", `${user}@`);
  return { admin, user, name, open: (at = url) => open(at) };
}

async function open(url: string) {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = { info: write, warn: write, error: write };
  const store = await postgres({ url, schema: "s" })({ tables: CORE_TABLES, dataDir: "", log });
  onTestFinished(() => store.close());
  return { store, lines };
}

requirement("postgres").describe("the first start on a database", () => {
  it("says which right is missing", async () => {
    const { open } = await newDatabase();

    await expect(open()).rejects.toMatchObject({
      type: "storage_error",
      message: expect.stringContaining("permission denied for database"),
      detail: expect.stringContaining("grant create on database"),
    });
  });

  it("says that a time limit of the role has ended it", async () => {
    const { admin, user, name, open } = await newDatabase();
    await admin(`grant create on database ${name} to ${user}; alter role ${user} set statement_timeout = 1`);

    await expect(open()).rejects.toMatchObject({
      type: "storage_error",
      detail: expect.stringContaining("set statement_timeout = 0"),
    });
  });

  it("writes to the disk what it acknowledges, though the role does not", async () => {
    const { admin, user, name, open } = await newDatabase();
    await admin(
      `grant create on database ${name} to ${user}; alter role ${user} set synchronous_commit = off`,
    );
    const { store, lines } = await open();
    await admin(`create table public.seen (how text); grant insert on public.seen to ${user};
      create function public.note() returns trigger language plpgsql as $$ begin
        insert into public.seen values (current_setting('synchronous_commit')); return new; end $$;
      create trigger note before insert on s."Job" for each row execute function public.note()`);

    await store.table("Job").insert(makeJob("a"));

    expect(await admin("select how from public.seen")).toEqual([{ how: "on" }]);
    expect(lines).toContainEqual(expect.stringContaining("synchronous_commit = off"));
  });

  it("says that searches are slow where the user may not create pg_trgm", async () => {
    const { admin, user, open } = await newDatabase();
    await admin(`create schema s authorization ${user}`);

    const { lines } = await open();

    expect(lines).toContainEqual(expect.stringContaining("create extension pg_trgm"));
  });

  it("says that the database is missing, and that the user is unknown", async () => {
    const { url } = await sharedCluster();

    await expect(open(url.replace("/postgres?", "/missing?"))).rejects.toMatchObject({
      message: expect.stringContaining('database "missing" does not exist'),
      detail: expect.stringContaining("Create the database"),
    });
    await expect(open(url.replace("svc@", "nobody-here@"))).rejects.toMatchObject({
      detail: expect.stringContaining("Check the user"),
    });
  });

  it("waits for a database that starts", async () => {
    const { name, admin } = await newDatabase();
    await admin(`alter database ${name} owner to svc`);
    const host = await DatabaseName.of(await sharedCluster());
    await host.cut();
    const opened = open(host.url.replace("/postgres", `/${name}`));

    await delay(1000);
    await host.restore();
    const { store, lines } = await opened;

    expect(lines).toContainEqual(expect.stringContaining("does not answer yet"));
    await store.table("Job").insert(makeJob("a"));
  });
});

it.each([
  ["postgres://u@db.example.com/agents", true],
  ["postgres://u@db.example.com/agents?sslmode=disable", true],
  ["postgres://u@db.example.com/agents?sslmode=require", false],
  ["postgres://u@hello-dev.postgres:5432/service?sslmode=disable", false],
  ["postgres://u@postgres:5432/service?sslmode=disable", false],
  ["postgres://u@postgres:5432/service", true],
  ["postgres://u@10.0.0.7/agents?sslmode=disable", true],
  ["postgres://u@db.example.com/agents?ssl=true", false],
  ["postgres://u@localhost/agents", false],
  ["postgres://u@127.0.0.1:5432/agents", false],
  ["postgres://u@[::1]/agents", false],
  ["postgres://u@localhost/agents?host=%2Fvar%2Frun%2Fpostgresql", false],
])("whether %s sends clear text to another host is %s", (url, expected) => {
  expect(isClearText(url)).toBe(expected);
});
