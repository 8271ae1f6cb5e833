// @area core
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type ServerOptions } from "agent-control-service";
import { expect, it, onTestFinished } from "vitest";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { greeter } from "../_setup.ts";
import { SharedStore } from "./_instances.ts";

const apiKey = "a-key-for-all-instances";

async function start(keys: Partial<ServerOptions>) {
  const dataDir = await mkdtemp(join(tmpdir(), "shared-keys-"));
  const service = createServer({
    ...{ agents: [greeter], store: new SharedStore().open, dataDir, port: 0, logTo: () => {} },
    ...keys,
  });
  onTestFinished(async () => {
    await service.close().catch(() => {});
    await rm(dataDir, { recursive: true });
  });
  return { service, dataDir };
}

it.each([
  ["no key", {}, /set SERVICE_API_KEY .* and SERVICE_RSA_PRIVATE_KEY .* to the same value on each/],
  ["only an API key", { apiKey }, /set SERVICE_RSA_PRIVATE_KEY \(option rsaPrivateKey\) to the same/],
  ["only an RSA key", { rsaPrivateKey: sharedRsaKey() }, /set SERVICE_API_KEY \(option apiKey\) to the same/],
])("with a store that instances share, %s is too little, and none is generated", async (_, keys, message) => {
  const { service, dataDir } = await start(keys);

  await expect(service.listen()).rejects.toThrow(message);

  expect(await readdir(dataDir)).toEqual([]);
});

it("with both keys it starts, and stores none of them", async () => {
  const { service, dataDir } = await start({ apiKey, rsaPrivateKey: sharedRsaKey() });

  await service.listen();

  expect((await readdir(dataDir)).filter((name) => /key/.test(name))).toEqual([]);
});
