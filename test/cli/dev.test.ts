// @long
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { connect, rootCertificates } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { access, beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
export default createServer({ agents: [hello], port: 0 });
`;

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((done) => server.close(done));
});

/** A project whose svc keeps its downloads in the project, too. */
async function setUp(more: Record<string, string> = {}) {
  const cwd = await project({ "src/controller.ts": CONTROLLER, ...more });
  return { cwd, env: { XDG_CACHE_HOME: join(cwd, "cache") } };
}

/** The fingerprint of the certificate that a server shows. */
function fingerprintAt(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

describe("svc dev", { timeout: PROCESS_TIME }, () => {
  it("reports a bad address: not of this machine, in use, blocked by browsers", async () => {
    const options = await setUp();
    const taken = createServer();
    servers.push(taken);
    await new Promise<void>((done) => taken.listen(0, "127.0.0.1", done));
    const { port } = taken.address() as AddressInfo;
    const fail = async (...words: string[]) => {
      const dev = beginSvc(["dev", ...words], options);
      await dev.prints(/at the next change/);
      dev.process.kill("SIGTERM");
      return (await dev.finished).stderr;
    };

    expect(await fail("--host", "192.0.2.1")).toContain('"192.0.2.1" is not an address of this machine');
    expect(await fail("--port", String(port))).toContain(`Port ${port} on 127.0.0.1 is in use`);
    expect(await fail("--port", "6667")).toContain("Browsers refuse to open port 6667");
    expect(await fail("--qr")).toContain("--qr shows the address to another device, which cannot reach");
  });

  it("--https keeps its certificate, and commands of this machine trust it and no other", async () => {
    const options = await setUp();

    const first = beginSvc(["dev", "--https"], options);
    await first.prints(/agents\s+hello/);
    const { url } = await access(options.cwd);
    const before = await fingerprintAt(url);
    const listed = await svc(["agent", "list"], options);
    await writeFile(join(options.cwd, "src/other.ts"), "export {};");
    await first.prints(/agents\s+hello/, 2);
    const after = await fingerprintAt((await access(options.cwd)).url);
    const cert = join(options.cwd, "data/dev-tls/cert.pem");
    const { mode } = await stat(join(options.cwd, "data/dev-tls/key.pem"));
    await writeFile(cert, rootCertificates[0]!);
    const untrusting = await svc(["agent", "list"], options);
    first.process.kill("SIGTERM");
    await first.finished;

    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(listed).toMatchObject({ code: 0, stdout: expect.stringContaining("hello") });
    expect(after).toBe(before);
    expect(mode & 0o777).toBe(0o600);
    expect(untrusting).toMatchObject({ code: 1, stderr: expect.stringContaining("No service responds at") });
  });

  it("--https uses the user's own certificate, and requires both of its files", async () => {
    const options = await setUp();

    const half = await svc(["dev", "--tls-cert", "cert.pem"], options);
    const dev = beginSvc(["dev", "--tls-cert", "cert.pem", "--tls-key", "key.pem"], options);
    await dev.prints(/There is no file .*cert\.pem/);
    dev.process.kill("SIGTERM");
    await dev.finished;

    expect(half).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Give both --tls-cert and --tls-key"),
    });
  });

  it("--open opens a sign-in link once, and not again at a restart", async () => {
    const options = await setUp();
    const programs = join(options.cwd, "programs");
    await mkdir(programs);
    await writeFile(
      join(programs, "xdg-open"),
      `#!/bin/sh\necho "$1" >> "${join(options.cwd, "opened.txt")}"\n`,
    );
    await chmod(join(programs, "xdg-open"), 0o755);
    const env = { ...options.env, PATH: `${programs}:${process.env.PATH}` };
    const opened = async () =>
      (await readFile(join(options.cwd, "opened.txt"), "utf8").catch(() => "")).trim().split("\n");

    const dev = beginSvc(["dev", "--open"], { ...options, env });
    await dev.prints(/agents\s+hello/);
    await expect.poll(opened).toEqual([expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/admin\/./)]);
    const [link] = await opened();
    const page = await fetch(link!, { redirect: "manual" });
    await writeFile(join(options.cwd, "src/other.ts"), "export {};");
    await dev.prints(/agents\s+hello/, 2);
    dev.process.kill("SIGTERM");
    await dev.finished;

    expect(page.status).toBeLessThan(400);
    expect(await opened()).toHaveLength(1);
  });

  it("--tunnel asks for consent, shows the address, also as a QR code, and ends the tunnel with the service", async () => {
    const options = await setUp();
    const cache = join(options.env.XDG_CACHE_HOME, "agent-control-service/node-untun");
    const log = join(options.cwd, "tunnel.txt");

    const unasked = await svc(["dev", "--tunnel"], options);
    await mkdir(cache, { recursive: true });
    await writeFile(
      join(cache, "cloudflared.test"),
      `#!/bin/sh\necho "began $*" >> "${log}"\ntrap 'echo ended >> "${log}"; exit 0' INT TERM\necho "INF |  https://calm-sea.trycloudflare.com  |"\nwhile :; do sleep 0.1; done\n`,
    );
    await chmod(join(cache, "cloudflared.test"), 0o755);
    const env = { ...options.env, CLOUDFLARED_VERSION: "test" };
    const dev = beginSvc(["dev", "--tunnel", "--qr"], { ...options, env });
    await dev.prints(/https:\/\/calm-sea\.trycloudflare\.com/);
    await dev.prints(/[▀▄█]{5}/);
    await dev.prints(/agents\s+hello/);
    dev.process.kill("SIGTERM");
    const ended = await dev.finished;

    expect(unasked).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--tunnel needs your consent"),
    });
    expect(unasked.stderr).toContain("https://www.cloudflare.com/terms/");
    expect(ended.code).toBe(0);
    expect(await readFile(log, "utf8")).toMatch(/^began tunnel --url http:\/\/127\.0\.0\.1:\d+.*\nended\n$/);
  });
});
