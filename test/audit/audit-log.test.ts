import { generateKeyPairSync, scryptSync } from "node:crypto";
import type { ServerOptions } from "agent-control-service";
import { AUDIT, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { type AuditEvent, AuditLog } from "../../src/core/audit/audit-log.ts";
import { RejectedKeys } from "../../src/core/audit/rejected-keys.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { LOGGER, REDACTOR, REJECTED_KEYS } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";

const DAY = 24 * 3_600_000;
const ALICE = { kind: "session", session: "abc123", says: "Alice", address: "192.0.2.7" } as const;

async function serve(options: Partial<ServerOptions> = {}) {
  let time = Date.parse("2026-03-01T12:00:00.000Z");
  const server = await testServer({ agents: [greeter], clock: () => new Date(time), ...options });
  await server.service.ready();
  const audit = server.service.get(AUDIT);
  const add = (id: string, more: Partial<AuditEvent> = {}) =>
    audit.record({ by: ALICE, action: "job.delete", target: { kind: "job", id }, ...more });
  const forward = (milliseconds: number) => {
    time += milliseconds;
  };
  return { server, audit, add, forward };
}

const numbers = (page: { items: { n: number }[] }) => page.items.map(({ n }) => n);

describe("the audit log", () => {
  it("is complete even while its old days are removed", async () => {
    const { server, add, forward } = await serve();
    await using _ = server;
    await add("job-1");
    forward(2 * DAY);
    await add("job-2");
    const { service } = server;
    const store = service.get(STORE);
    let beforeRead: (() => Promise<unknown>) | undefined;
    const slow: typeof store = {
      table: (name) => store.table(name),
      transaction: (work, options) => store.transaction(work, options),
      hints: store.hints,
      now: () => store.now(),
      health: () => store.health(),
      stats: () => store.stats(),
      close: () => store.close(),
      log: (name) => ({
        ...store.log(name),
        read: async (key, range) => {
          const act = beforeRead;
          beforeRead = undefined;
          await act?.();
          return store.log(name).read(key, range);
        },
      }),
    };
    const parts = {
      store: slow,
      ledger: service.get(LEDGER),
      redactor: service.get(REDACTOR),
      log: service.get(LOGGER),
    };
    const audit = new AuditLog(parts);
    beforeRead = () => service.get(AUDIT).trim(Date.parse("2026-03-03T00:00:00.000Z"));

    expect(await audit.verify()).toEqual({ lines: 2, problem: undefined });
  });

  it("records who, from where, what, on what, before and after", async () => {
    const { server, audit, add } = await serve();
    await using _ = server;

    await add("job-1", { action: "job.status", before: "failed", after: "completed" });

    const { items, total, next } = await audit.list();
    expect(items).toEqual([
      {
        n: 1,
        at: "2026-03-01T12:00:00.000Z",
        who: { kind: "session", session: "abc123", says: "Alice" },
        address: "192.0.2.7",
        action: "job.status",
        target: { kind: "job", id: "job-1" },
        before: "failed",
        after: "completed",
        outcome: "done",
        hash: expect.stringMatching(/^[\w-]{43}$/),
      },
    ]);
    expect([total, next]).toEqual([1, null]);
  });

  it("is stored together with the change that it records, or not at all, in the service's log too", async () => {
    const { server, audit } = await serve();
    await using _ = server;
    const ledger = server.service.get(LEDGER);

    const failed = ledger.write(async (unit) => {
      await audit.write(unit, { by: ALICE, action: "job.stop", target: { kind: "job", id: "never" } });
      throw new Error("the change failed");
    });
    await expect(failed).rejects.toThrow("the change failed");
    await ledger.write((unit) =>
      audit.write(unit, { by: ALICE, action: "job.stop", target: { kind: "job", id: "stopped" } }),
    );

    expect((await audit.list()).items.map(({ target }) => target?.id)).toEqual(["stopped"]);
    const said = server.logs.filter((line) => line.includes("category=security"));
    expect(said.join("")).not.toContain("never");
    expect(said).toEqual([
      expect.stringMatching(
        /INFO {2}job\.stop category=security .*says \\"Alice\\".*address=192\.0\.2\.7 job=stopped/,
      ),
    ]);
  });

  it("numbers lines without a gap, even with concurrent writers", async () => {
    const { server, audit, add } = await serve();
    await using _ = server;

    await Promise.all(Array.from({ length: 60 }, (_, n) => add(`job-${n}`)));

    const { items } = await audit.list({ limit: 100 });
    expect(items.map(({ n }) => n)).toEqual(Array.from({ length: 60 }, (_, n) => 60 - n));
    expect(await audit.verify()).toEqual({ lines: 60, problem: undefined });
  });

  it("is paged by number, from the newest to the oldest", async () => {
    const { server, audit, add, forward } = await serve();
    await using _ = server;
    for (let n = 1; n <= 7; n++) {
      await add(`job-${n}`);
      forward(DAY / 2);
    }

    const first = await audit.list({ limit: 3 });
    const second = await audit.list({ limit: 3, before: first.next! });
    const third = await audit.list({ limit: 3, before: second.next! });

    expect([first, second, third].map(numbers)).toEqual([[7, 6, 5], [4, 3, 2], [1]]);
    expect([first.next, second.next, third.next]).toEqual([5, 2, null]);
  });

  it("is filtered by action, who, target and time", async () => {
    const { server, audit, add, forward } = await serve();
    await using _ = server;
    await add("job-a");
    await add("job-b", { by: { kind: "key", address: "198.51.100.1" } });
    forward(DAY);
    await add("job-a", { action: "job.stop" });

    expect(numbers(await audit.list({ action: "job.delete" }))).toEqual([2, 1]);
    expect(numbers(await audit.list({ who: "alice" }))).toEqual([3, 1]);
    expect(numbers(await audit.list({ who: "198.51.100" }))).toEqual([2]);
    expect(numbers(await audit.list({ target: "JOB-A" }))).toEqual([3, 1]);
    expect(numbers(await audit.list({ since: "2026-03-02T00:00:00Z" }))).toEqual([3]);
    expect(numbers(await audit.list({ until: "2026-03-02T00:00:00Z" }))).toEqual([2, 1]);
  });

  it("keeps no secret", async () => {
    const { server, audit, add } = await serve({ apiKey: "a-secret-key-of-this-service" });
    await using _ = server;

    await add("a-secret-key-of-this-service", {
      by: { kind: "session", session: "abc", says: "a-secret-key-of-this-service" },
      after: { text: "it is a-secret-key-of-this-service" },
    });

    expect(JSON.stringify(await audit.list())).not.toContain("a-secret-key-of-this-service");
    expect(server.logs.join("")).not.toContain("a-secret-key-of-this-service");
  });

  it.each([
    [
      "changed",
      (lines: string[]) => lines.map((line) => line.replace('"job-2"', '"job-9"')),
      "line 2 is not as it was written",
    ],
    [
      "omitted",
      (lines: string[]) => lines.filter((line) => !line.includes('"job-2"')),
      "line 1 is followed by line 3",
    ],
  ])("shows a line that was %s", async (_, tamper, problem) => {
    const { server, audit, add } = await serve();
    await using _server = server;
    for (let n = 1; n <= 3; n++) await add(`job-${n}`);
    const day = "2026-03-01";
    const store = server.service.get(STORE);
    const lines = (await store.log("Audit").read(day)).map(({ entry }) => JSON.stringify(entry));

    await store.transaction(async (tx) => {
      await tx.clear("Audit", day);
      for (const line of tamper(lines)) await tx.append("Audit", day, JSON.parse(line));
    });

    expect((await audit.verify()).problem).toBe(problem);
  });

  it("shows that the last lines are missing", async () => {
    const { server, audit, add } = await serve();
    await using _ = server;
    await add("job-1");
    await server.service.get(STORE).transaction((tx) => tx.clear("Audit", "2026-03-01"));

    expect((await audit.verify()).problem).toBe("lines after 0 are missing");
  });

  it("keeps its order if the clock is set back", async () => {
    const { server, audit, add, forward } = await serve();
    await using _ = server;
    await add("job-1");
    forward(-5 * DAY);
    await add("job-2");

    expect(numbers(await audit.list())).toEqual([2, 1]);
    expect((await audit.verify()).problem).toBeUndefined();
  });

  it("drops its oldest days if configured, records that, and can still be verified", async () => {
    const { server, audit, add, forward } = await serve();
    await using _ = server;
    for (let n = 1; n <= 5; n++) {
      await add(`job-${n}`);
      forward(DAY);
    }

    const removed = await audit.trim(Date.parse("2026-03-03T18:00:00Z"));

    expect(removed).toBe(2);
    const { items, total } = await audit.list();
    expect(items.map(({ n }) => n)).toEqual([6, 5, 4, 3]);
    expect(items[0]).toMatchObject({ action: "audit.trim", who: { kind: "system" }, after: { lines: 2 } });
    expect(total).toBe(4);
    expect(await audit.verify()).toEqual({ lines: 4, problem: undefined });
    expect(await audit.trim(Date.parse("2026-03-03T18:00:00Z"))).toBe(0);
  });

  it("continues after a restart", async () => {
    const first = await serve({ store: undefined });
    await first.add("job-1");
    await first.server.service.close();
    const second = await serve({ store: undefined, dataDir: first.server.dataDir });
    await using _first = first.server;
    await using _second = second.server;

    await second.add("job-2");

    expect(numbers(await second.audit.list())).toEqual([2, 1]);
    expect((await second.audit.verify()).problem).toBeUndefined();
  });

  it.each([
    ["weak", "the-first-key", "the-second-key"],
    ["strong", "Zt5qkL0vXw2Rb8yNfJc4Hs7dGm1Ke9Pa", "vR3bX8wL1qZk6TfNy0cJ5Hs9dGm2Ke7Pa"],
  ])(
    "records at a start that a %s API key has changed, and nothing if it is the same",
    async (_kind, one, two) => {
      const actions = async (server: TestServer) =>
        (await server.service.get(AUDIT).list()).items.map(({ action }) => action);
      const first = await serve({ store: undefined, apiKey: one });
      await using _first = first.server;
      await first.server.service.close();
      const { dataDir } = first.server;
      const same = await serve({ store: undefined, dataDir, apiKey: one });
      await same.server.service.close();
      const other = await serve({ store: undefined, dataDir, apiKey: two });
      await using _ = other.server;

      await expect.poll(() => actions(other.server)).toEqual(["key.changed"]);

      expect(JSON.stringify(await other.audit.list())).not.toContain(two);
    },
  );

  it("records that the RSA key is another one, and warns, but not of another way to write it", async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const pem = (type: "pkcs1" | "pkcs8") => privateKey.export({ type, format: "pem" }).toString();
    const first = await serve({ store: undefined, rsaPrivateKey: pem("pkcs8") });
    await using _first = first.server;
    await first.server.service.close();
    const { dataDir } = first.server;
    const same = await serve({ store: undefined, dataDir, rsaPrivateKey: pem("pkcs1") });
    await same.server.service.close();
    const other = await serve({ store: undefined, dataDir });
    await using _other = other.server;

    await expect
      .poll(async () => (await other.audit.list()).items.map(({ action }) => action))
      .toEqual(["rsa_key.changed"]);
    expect(same.server.logs.join("")).not.toContain("RSA key");
    expect(other.server.logs.join("")).toContain("the RSA key is another one than at the last start");
  });

  it("knows a strong key by the slow hash that earlier versions made of it", async () => {
    const apiKey = "Zt5qkL0vXw2Rb8yNfJc4Hs7dGm1Ke9Pa";
    const before = await serve({ store: undefined, apiKey });
    await using _before = before.server;
    const { dataDir } = before.server;
    const hash = scryptSync(apiKey, "some-salt", 32, { N: 4096 }).toString("base64url");
    const store = before.server.service.get(STORE);
    await store.transaction((tx) =>
      tx.change("KeyMark", "api-key", (mark) => ({ ...mark, salt: "some-salt", hash })),
    );
    await before.server.service.close();
    const after = await serve({ store: undefined, dataDir, apiKey });
    await after.server.service.close();
    const other = await serve({ store: undefined, dataDir, apiKey: `${apiKey}2` });
    await using _other = other.server;

    // Once: not at the start with the same key.
    await expect
      .poll(async () => (await other.audit.list()).items.map(({ action }) => action))
      .toEqual(["key.changed"]);
  });
});

describe("wrong keys", () => {
  it("are recorded once for each address and minute, and in one line for all addresses above a limit", async () => {
    const { server, audit } = await serve();
    await using _ = server;
    const rejected = new RejectedKeys(audit);
    for (let n = 0; n < 500; n++) rejected.add("192.0.2.1", n >= 10);
    rejected.add("192.0.2.2", false);
    for (let n = 0; n < 1000; n++) rejected.add(`2001:db8:0:${n}::/64`, false);

    await rejected.flush();

    const { items } = await audit.list({ limit: 100 });
    expect(items).toHaveLength(21);
    expect(items.at(-1)).toMatchObject({
      action: "key.locked_out",
      who: { kind: "nobody" },
      address: "192.0.2.1",
      outcome: "refused",
      after: { wrong_keys: 10, refused_unseen: 490 },
    });
    expect(items.at(-2)).toMatchObject({ action: "key.rejected", address: "192.0.2.2" });
    expect(items[0]).toMatchObject({ address: null, after: { wrong_keys: 1000 - 18 } });
  });

  it("that are counted are stored when the service closes", async () => {
    const first = await serve({ store: undefined });
    await using _first = first.server;
    first.server.service.get(REJECTED_KEYS).add("192.0.2.1", false);
    await first.server.service.close();
    const second = await serve({ store: undefined, dataDir: first.server.dataDir });
    await using _ = second.server;

    expect((await second.audit.list()).items).toMatchObject([
      { action: "key.rejected", address: "192.0.2.1" },
    ]);
  });
});
