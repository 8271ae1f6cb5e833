// @long
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { access, beginSvc, PROCESS_TIME, project, REPOSITORY, svc } from "./_svc.ts";

const AGENT = `
import { createServer, defineAgent } from "agent-control-service";
enum Kind { Sleeper = "Sleeper" } // TypeScript that cannot be stripped
const sleeper = defineAgent({
  name: Kind.Sleeper as string,
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job, signal }) {
        await job.step("sleep", () => new Promise((done, fail) => {
          const timer = setTimeout(done, 60_000);
          signal.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); });
        }));
      },
    },
  },
});
`;
const CONTROLLER = `${AGENT}\nexport default createServer({ agents: [sleeper], shutdownGrace: 1 });\n`;
const ANY_PORT = { SERVICE_PORT: "0" };

describe("svc start", { timeout: PROCESS_TIME }, () => {
  it("serves the default controller, and shows where and what to do next", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const service = beginSvc(["start"], { cwd, env: ANY_PORT });

    await service.prints(/Press Ctrl-C to stop/);
    const { url } = await access(cwd);
    const health = await fetch(`${url}/.well-known/health`);

    expect(await health.json()).toMatchObject({ status: "healthy" });
    expect(service.output()).toContain(url);
    expect(service.output()).toContain(`${url}/docs`);
    expect(service.output()).toContain("npx svc job start sleeper --wait");
    expect(service.output()).not.toContain((await access(cwd)).key);
    expect((await stat(join(cwd, "data/address"))).mode & 0o777).toBe(0o600);
  });

  it("prints with --timing where the time of the start went", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const service = beginSvc(["start", "--timing"], { cwd, env: ANY_PORT });

    await service.prints(/in all +\d+ ms/);

    const parts = [...service.output().matchAll(/^ {2}(\S.*?) +\d+ ms$/gm)].map(([, part]) => part);
    expect(parts).toEqual([
      ...["command", "controller and its modules", "store", "store: files", "store: order"],
      ...["plugins", "listen", "unfinished jobs", "in all"],
    ]);
  });

  it("reads missing variables from files, as containers get their secrets", async () => {
    const cwd = await project({
      "src/controller.ts": CONTROLLER,
      "secrets/SERVICE_API_KEY": "a-key-from-a-file",
      "secrets/other/TAKEN": "from a file",
      "secrets/..data/IGNORED": "an earlier version",
    });
    const log = "console.log([process.env.TAKEN, process.env.IGNORED].join());\n";
    await writeFile(join(cwd, "src/controller.ts"), log + CONTROLLER);
    const env = { ...ANY_PORT, SERVICE_SECRETS_DIR: join(cwd, "secrets"), TAKEN: "given" };
    const service = beginSvc(["start"], { cwd, env });

    await service.prints(/Press Ctrl-C to stop/);
    const [url = ""] = /http:\/\/[^\s/]+/.exec(service.output()) ?? [];
    const headers = { "X-API-Key": "a-key-from-a-file" };

    expect((await fetch(`${url}/agents/health`, { headers })).status).toBe(200);
    expect(service.output()).toContain("given,\n");
  });

  it.each(["SIGTERM", "SIGINT"] as const)(
    "exits with 0 at %s, while a job and a stream are open",
    async (signal) => {
      const cwd = await project({ "src/controller.ts": CONTROLLER });
      const service = beginSvc(["start"], { cwd, env: { ...ANY_PORT, SERVICE_LOG_LEVEL: "debug" } });
      await service.prints(/Press Ctrl-C to stop/);
      await svc(["job", "start", "sleeper", "--id", "long"], { cwd });
      const watch = beginSvc(["job", "watch", "long"], { cwd });
      await watch.prints(/in_progress|resumed|started/);

      service.process.kill(signal);
      const end = await service.finished;

      expect(end, end.stderr).toMatchObject({ code: 0 });
    },
  );

  it("ends immediately at the second signal", async () => {
    const slow = CONTROLLER.replace(
      "agents: [sleeper],",
      'agents: [sleeper], plugins: [{ name: "slow", setup: ({ onClose }) => onClose(() => new Promise((done) => setTimeout(done, 60_000))) }],',
    );
    const cwd = await project({ "src/controller.ts": slow });
    const service = beginSvc(["start"], { cwd, env: ANY_PORT });
    await service.prints(/Press Ctrl-C to stop/);

    service.process.kill("SIGTERM");
    await service.prints(/ending/);
    await new Promise((done) => setTimeout(done, 700));
    service.process.kill("SIGTERM");

    expect(await service.finished).toMatchObject({ code: 143 });
  });

  it("keeps running when an agent forgets a rejected promise", async () => {
    const careless = `${CONTROLLER}setTimeout(() => void Promise.reject(new Error("forgotten")), 500);\n`;
    const cwd = await project({ "src/controller.ts": careless });
    const service = beginSvc(["start"], { cwd, env: ANY_PORT });
    await service.prints(/forgotten/);
    await service.prints(/Press Ctrl-C to stop/);

    const health = await fetch(`${(await access(cwd)).url}/.well-known/health`);

    expect(health.status).toBe(200);
  });

  it("reports a port that is in use", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((done) => other.once("listening", done));
    const { port } = other.address() as AddressInfo;
    const cwd = await project({ "src/controller.ts": CONTROLLER });

    const end = await svc(["start", "--port", String(port)], { cwd });
    other.close();

    expect(end).toMatchObject({ code: 1, stdout: "" });
    expect(end.stderr).toContain(`Port ${port} on 127.0.0.1 is in use`);
    expect(end.stderr).not.toMatch(/\n\s+at /);
  });

  it("names the process that holds the data folder", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const first = beginSvc(["start"], { cwd, env: ANY_PORT });
    await first.prints(/Press Ctrl-C to stop/);

    const end = await svc(["start"], { cwd, env: ANY_PORT });

    expect(end.code).toBe(1);
    expect(end.stderr).toContain(String(first.process.pid));
    expect(end.stderr).not.toMatch(/\n\s+at /);
  });

  it("explains what to do without a controller, and if a file does not exist", async () => {
    const cwd = await project();

    expect(await svc(["start"], { cwd })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("svc init"),
    });
    expect((await svc(["start", "nope.ts"], { cwd })).stderr).toContain("File nope.ts does not exist");
  });

  it.each([
    ["a folder instead of a file", ["start", "src"], {}, "src is a folder"],
    ["a data folder that is a file", ["start"], { SERVICE_DATA_DIR: "package.json" }, "SERVICE_DATA_DIR"],
  ])("explains %s", async (_, args, env, message) => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });

    const end = await svc(args, { cwd, env: { ...ANY_PORT, ...env } });

    expect(end).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
    expect(end.stderr).not.toMatch(/unexpected|\n\s+at /);
  });

  it("may be another copy of the package than the one that the project uses", async () => {
    const copy = await project();
    for (const part of ["dist", "package.json"]) {
      await cp(join(REPOSITORY, part), join(copy, part), { recursive: true });
    }
    await rm(join(copy, "node_modules"), { recursive: true });
    await symlink(join(REPOSITORY, "node_modules"), join(copy, "node_modules"));
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const command = [process.execPath, join(copy, "dist/cli.js")];
    const service = beginSvc(["start"], { cwd, env: ANY_PORT, command });

    await service.prints(/Press Ctrl-C to stop/);
  });

  it("loads plain JavaScript natively", async () => {
    const cwd = await project({
      "service.js": CONTROLLER.replace(/enum .*\n/, "").replace("Kind.Sleeper as string", '"Sleeper"'),
    });
    const service = beginSvc(["start", "service.js"], { cwd, env: ANY_PORT });

    await service.prints(/agents\s+sleeper/);
  });

  it("refuses a bad setting with its name, without its value", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });

    const end = await svc(["start"], { cwd, env: { SERVICE_API_KEY: "short" } });

    expect(end).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("apiKey must be at least 8 characters"),
    });
    expect(end.stderr).not.toContain("short");
  });
});

describe("svc dev", { timeout: PROCESS_TIME }, () => {
  it("a worker exits by itself if its supervisor exits while it starts", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const env = { ...process.env, ...ANY_PORT, SVC_DEV_WORKER: "1" };
    const cli = join(REPOSITORY, "dist/cli.js");
    const worker = spawn(process.execPath, [cli, "dev"], {
      cwd,
      env,
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });

    worker.disconnect();

    expect(await once(worker, "exit")).toEqual([0, null]);
  });

  it("restarts the service when a file changes, and waits while it is broken", async () => {
    const cwd = await project({ "src/controller.ts": CONTROLLER });
    const dev = beginSvc(["dev"], { cwd, env: ANY_PORT });
    await dev.prints(/agents\s+sleeper/);

    await writeFile(join(cwd, "src/controller.ts"), "export default {");
    await dev.prints(/restarts at the next change/);
    await writeFile(join(cwd, "src/controller.ts"), CONTROLLER.replaceAll("Sleeper", "Dreamer"));
    await dev.prints(/agents\s+dreamer/);
    dev.process.kill("SIGTERM");

    expect(await dev.finished).toMatchObject({ code: 0 });
  });
});
