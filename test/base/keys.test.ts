import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, defineAgent } from "agent-control-service";
import { KEYS } from "agent-control-service/plugin";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLogger } from "../../src/core/base/log.ts";
import { Redactor } from "../../src/core/base/redactor.ts";
import { loadKeys } from "../../src/core/service/keys.ts";
import { resolveOptions } from "../../src/core/service/options.ts";

const agents = [defineAgent({ name: "A", version: "1", methods: { job_start: { run: () => null } } })];
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "keys-"));
});
afterEach(() => rm(folder, { recursive: true }));

function load(dataDir: string, write: (line: string) => void = () => {}) {
  const log = createLogger({
    level: "warn",
    format: "text",
    redactor: new Redactor(),
    clock: () => new Date(),
    write,
  });
  return loadKeys(resolveOptions({ agents, dataDir }, {}), log);
}

it("of two services that start in a new folder, the one that runs uses the keys that are stored there", async () => {
  const make = () => createServer({ agents, dataDir: folder, port: 0, logTo: () => {} });
  const services = [make(), make()];

  const started = await Promise.allSettled(services.map((service) => service.ready()));

  expect(started.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const running = services[started.findIndex(({ status }) => status === "fulfilled")]!;
  expect((await readFile(join(folder, "api-key"), "utf8")).trim()).toBe(running.get(KEYS).apiKey);
  expect((await stat(join(folder, "api-key"))).mode & 0o777).toBe(0o600);
  await Promise.all(services.map((service) => service.close()));
});

it("an unusable data folder is named, with what to do", async () => {
  await writeFile(join(folder, "file"), "");

  const service = createServer({ agents, dataDir: join(folder, "file"), port: 0, logTo: () => {} });

  await expect(service.ready()).rejects.toMatchObject({
    name: "OptionsError",
    message: expect.stringMatching(/data folder .*file cannot be used \(E[A-Z]+\).*SERVICE_DATA_DIR/),
  });
});

it("a weak key is logged as a warning at the start, without being shown", async () => {
  const logs: string[] = [];
  const options = { agents, dataDir: folder, port: 0, logTo: (line: string) => void logs.push(line) };

  const service = createServer({ ...options, apiKey: "12345678", previousApiKey: "password-of-old" });
  await service.ready();
  await service.close();

  const warnings = logs.filter((line) => line.includes("less than 128 bits"));
  expect(warnings).toHaveLength(2);
  expect(warnings.join()).not.toMatch(/12345678|password-of-old/);
});

it("a damaged key is reported with its file", async () => {
  await writeFile(join(folder, "rsa-private-key.pem"), "-----BEGIN PRIVATE KEY-----\nAAAA\n");

  await expect(load(folder)).rejects.toThrow(/rsa-private-key\.pem .*RSA private key/);
});

it("files with keys that others can read or change are made private, with a warning", async () => {
  const keys = await load(folder);
  const files = ["api-key", "rsa-private-key.pem"].map((name) => join(folder, name));
  await chmod(files[0]!, 0o644);
  await chmod(files[1]!, 0o620);
  const lines: string[] = [];

  const again = await load(folder, (line) => void lines.push(line));

  expect(again).toEqual(keys);
  for (const file of files) expect((await stat(file)).mode & 0o777).toBe(0o600);
  const warnings = lines.filter((line) => line.includes("other users of this machine"));
  expect(warnings).toEqual([expect.stringContaining("0644"), expect.stringContaining("0620")]);
  expect(lines.join("")).not.toContain(keys.apiKey);
  lines.length = 0;
  await load(folder, (line) => void lines.push(line));
  expect(lines.join("")).not.toContain("other users");
});
