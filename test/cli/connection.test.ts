import { readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { isLoopback } from "../../src/core/base/loopback.ts";
import { beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const KEY = "prod-key-of-the-user-0123456789";
const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { fields: [], run: () => "hello" } } });
export default createServer({ agents: [hello] });
`;
const closers: (() => void)[] = [];

afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A server that remembers the keys that it was sent. */
async function listen(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const keys: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers["x-api-key"] as string | undefined);
    answer(request, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closers.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys };
}

const noJobs = (_request: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(200, { "content-type": "application/json" }).end("[]");

describe("the command line", () => {
  it.each([301, 302, 303, 307, 308])("does not follow a redirect (%i) with the key", async (status) => {
    const stranger = await listen(noJobs);
    const service = await listen((_request, response) =>
      response.writeHead(status, { location: `${stranger.url}/jobs` }).end(),
    );
    const cwd = await project();

    const { code, stderr } = await svc(["job", "list", "--url", service.url], {
      cwd,
      env: { SERVICE_API_KEY: KEY },
    });

    expect([code, stranger.keys]).toEqual([1, []]);
    expect(stderr).toContain(`${service.url} redirects to "${stranger.url}"; redirects are not followed`);
    expect(stderr).toContain("--url");
  });

  it("does not send the environment's key to an address that a file of the folder names", async () => {
    const cwd = await project({ "data/address": "https://203.0.113.7:22091\n" });

    const { code, stderr } = await svc(["job", "list"], { cwd, env: { SERVICE_API_KEY: KEY } });

    expect(code).toBe(2);
    expect(stderr).toMatch(
      /data\/address points to https:\/\/203\.0\.113\.7:22091, which is not on this machine/,
    );
    expect(stderr).not.toContain(KEY);
  });

  it("sends it to a service on this machine, wherever the address is from", async () => {
    const service = await listen(noJobs);
    const cwd = await project({ "data/address": `${service.url}\n` });
    const env = { SERVICE_API_KEY: KEY };

    const found = await svc(["job", "list", "--json"], { cwd, env });
    const named = await svc(["job", "list", "--json"], { cwd, env: { ...env, SERVICE_URL: service.url } });

    expect([found.code, named.code, service.keys]).toEqual([0, 0, [KEY, KEY]]);
  });

  it("refuses plain http to another machine unless it is allowed", async () => {
    const cwd = await project();
    // Nobody has this address (RFC 5737): where it is tried, the connection fails.
    const args = ["job", "list", "--url", "http://192.0.2.1:9"];
    const refused = await svc(args, { cwd, env: { SERVICE_API_KEY: KEY } });
    const admin = await svc(["events", "list", "--url", "http://192.0.2.1:9"], { cwd });

    expect([refused.code, admin.code]).toEqual([2, 2]);
    expect(refused.stderr).toMatch(/192\.0\.2\.1:9 is on another machine.*unencrypted/);
    expect(refused.stderr).toContain("--insecure");
  });

  it("accepts --insecure for a service on a private network", async () => {
    const cwd = await project();

    const { code, stderr } = await svc(["job", "list", "--insecure", "--url", "http://svc.invalid:9"], {
      cwd,
    });

    expect(code).toBe(1);
    expect(stderr).toContain("No service responds at http://svc.invalid:9");
  });

  it("names where the last service of the folder ran", { timeout: PROCESS_TIME }, async () => {
    const cwd = await project({ "controller.ts": CONTROLLER });
    const service = beginSvc(["start", "--port", "0"], { cwd });
    await service.prints(/Press Ctrl-C to stop/);
    const last = (await readFile(join(cwd, "data/address"), "utf8")).trim();
    service.process.kill("SIGTERM");
    await service.finished;

    const env = { SERVICE_PORT: "9" };
    const ended = await svc(["job", "list"], { cwd, env });
    await writeFile(join(cwd, "data/address"), `${last}\n`);
    const killed = await svc(["job", "list"], { cwd });

    expect(ended.stderr).toContain("No service responds at http://127.0.0.1:9");
    expect(ended.stderr).toContain(`The last service of this folder ran at ${last}.`);
    expect(killed.stderr).toContain(`No service responds at ${last}`);
    expect(killed.stderr).toContain("The last service of this folder ran there.");
  });
});

it.each([
  ["127.0.0.1", true],
  ["127.8.9.1", true],
  ["localhost", true],
  ["service.localhost", true],
  ["notlocalhost", false],
  ["[::1]", true],
  ["[::ffff:127.0.0.1]", true],
  ["192.168.0.1", false],
  ["localhost.example.com", false],
  ["127.0.0.1.example.com", false],
  ["0.0.0.0", false],
])("%s is this machine: %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});
