// @area core
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type ServerOptions, type Service } from "agent-control-service";
import { describe, expect, it, onTestFinished } from "vitest";
import { JOBS, STORE } from "../../src/core/service/tokens.ts";
import { postgres } from "../../src/postgres.ts";
import { storageFromUrl } from "../../src/storage.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";

const makeRsaKey = () =>
  generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }).privateKey;

const OWN = { apiKey: "the-key-of-one-service", rsaPrivateKey: sharedRsaKey() };
const OTHER = { apiKey: "the-key-of-another-one", rsaPrivateKey: makeRsaKey() };

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "store-owner-"));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

/** Starts a service, which is closed when the test ends. */
async function start(options: Partial<ServerOptions>): Promise<Service> {
  const service = createServer({
    ...{ agents: [agentOf(() => "done")], port: 0, admin: false, logTo: () => {}, ...options },
  });
  onTestFinished(() => service.close());
  return service.ready().catch(async (error: unknown) => {
    // As the end of its process does.
    await service.close();
    throw error;
  });
}

/** Options of services that have one store. */
async function onFolder(): Promise<() => Promise<Partial<ServerOptions>>> {
  const dataDir = await folder();
  return async () => ({ dataDir });
}

async function onBucket(): Promise<() => Promise<Partial<ServerOptions>>> {
  const url = `file://${await folder()}`;
  return async () => ({ dataDir: await folder(), storage: storageFromUrl(url) });
}

async function onDatabase(): Promise<() => Promise<Partial<ServerOptions>>> {
  const cluster = await sharedCluster();
  const schema = await borrowSchema(cluster);
  return async () => ({ dataDir: await folder(), store: postgres({ url: cluster.url, schema }) });
}

/** The mark that an error names. */
const markIn = (error: unknown) => /SERVICE_ADOPT_STORE=([0-9a-f]{12})/.exec((error as Error).message)![1]!;

for (const [place, make, needs] of [
  ["a folder", onFolder, undefined],
  ["a bucket", onBucket, undefined],
  ["a database", onDatabase, "postgres"],
] as const) {
  const suite = needs === undefined ? describe : requirement(needs).describe;
  suite(`a store in ${place}`, () => {
    it("is refused to another service by name, unless that adopts it, and then to the first one", async () => {
      const on = await make();
      const first = await start({ ...(await on()), ...OWN });
      const { id } = await startJob(first);
      await until(first, id);
      await first.close();

      const refused = await start({ ...(await on()), ...OTHER }).catch((error: unknown) => error);
      // One thing to do on each line, so that a terminal shows it as it is.
      const lines = (refused as Error).message.split("\n");
      expect([lines.length > 3, lines.every((line) => line.length < 130)]).toEqual([true, true]);
      expect((refused as Error).message).toMatch(/^The store is that of another service \(agent Worker\)/);
      const mark = markIn(refused);
      await expect(start({ ...(await on()), ...OTHER, adoptStore: "0123456789ab" })).rejects.toThrow(mark);
      const second = await start({ ...(await on()), ...OTHER, adoptStore: mark });
      expect((await second.get(JOBS).get(id)).status).toBe("completed");
      await second.close();
      // The variable may stay set.
      await (await start({ ...(await on()), ...OTHER, adoptStore: mark })).close();

      const old = await start({ ...(await on()), ...OWN, adoptStore: mark }).catch((error: unknown) => error);
      expect(markIn(old)).not.toBe(mark);
    });

    it("is that of a service that has changed one of its keys, or has them from an earlier version", async () => {
      const on = await make();
      const first = await start({ ...(await on()), ...OWN });
      // As an earlier version has stored them.
      for (const id of ["api-key", "rsa-key"])
        await first
          .get(STORE)
          .table("KeyMark")
          .change(id, ({ service: _, ...mark }) => mark);
      await first.close();

      const changed = { ...OWN, apiKey: "a-new-key-for-the-service", previousApiKey: OWN.apiKey };
      await (await start({ ...(await on()), ...changed })).close();
      const refused = await start({ ...(await on()), ...OTHER }).catch((error: unknown) => error);
      expect((refused as Error).message).toMatch(/^The store is that of another service, with the mark/);
    });
  });
}

it("a service on a folder may change its RSA key as long as its API key is the same", async () => {
  const dataDir = await folder();
  await (await start({ dataDir, ...OWN })).close();

  await (await start({ dataDir, ...OWN, rsaPrivateKey: OTHER.rsaPrivateKey })).close();
  await expect(start({ dataDir, ...OWN, apiKey: OTHER.apiKey })).rejects.toThrow("SERVICE_ADOPT_STORE=");
});

it("another service that meets a bucket is refused before the one that has it loses it", async () => {
  const on = await onBucket();
  const first = await start({ ...(await on()), ...OWN });

  const refused = start({ ...(await on()), ...OTHER });

  await expect(refused).rejects.toThrow(/^The store is that of another service \(agent Worker\)/);
  const { id } = await startJob(first);
  expect((await until(first, id)).status).toBe("completed");
});

requirement("postgres").describe("several instances on a database", () => {
  it("an instance that has another RSA key than the others does not start beside them", async () => {
    const on = await onDatabase();
    const first = await start({ ...(await on()), ...OWN });

    const wrong = start({ ...(await on()), ...OWN, rsaPrivateKey: OTHER.rsaPrivateKey });

    await expect(wrong).rejects.toThrow(/^The store is that of this service with another RSA key/);
    const { id } = await startJob(first);
    expect((await until(first, id)).status).toBe("completed");
  });

  it("of two services that start for the first time, one has the database", async () => {
    // Which of them is faster at what is another thing each time.
    for (let round = 0; round < 8; round++) {
      const on = await onDatabase();
      const [one, other] = [await on(), await on()];

      const results = await Promise.allSettled([start({ ...one, ...OWN }), start({ ...other, ...OTHER })]);

      expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    }
  });
});
