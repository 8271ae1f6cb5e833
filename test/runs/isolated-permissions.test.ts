// @long
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readIsolation } from "../../src/core/agents/isolate-options.ts";
import { beginSvc, PROCESS_TIME, project, svc } from "../cli/_svc.ts";
import { jobContext } from "./_jobs.ts";
import { ServiceProcess } from "./_process.ts";

/** An agent that tries to get what is not its own, and says what came of it. */
const CONTROLLER = `
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { connect, createServer as listen } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import * as v from "valibot";
import { createServer, defineAgent } from "agent-control-service";

const parent = "/proc/" + process.ppid;
const tries = {
  environment: () => fs.readFileSync(parent + "/environ", "utf8"),
  memory: () => fs.openSync(parent + "/mem", "r"),
  handles: () => fs.readdirSync(parent + "/fd"),
  key: () => fs.readFileSync("data/api-key", "utf8"),
  rsa: () => fs.readFileSync("src/../data/rsa-private-key.pem", "utf8"),
  store: () => fs.readdirSync("data"),
  settings: () => fs.readFileSync(".env", "utf8"),
  system: () => fs.readFileSync("/etc/passwd", "utf8"),
  program: () => { const { error, stdout } = spawnSync("cat", ["data/api-key"]); if (error) throw error; return stdout; },
  thread: () => new Worker("", { eval: true, execArgv: [] }),
  native: () => process.dlopen({ exports: {} }, "/lib/none.node"),
  code: () => fs.writeFileSync("controller.mjs", "export default 1"),
  link: () => fs.symlinkSync("../data", join(tmpdir(), "link")),
  elsewhere: () => fs.writeFileSync("/tmp/svc-agent-was-here", "x"),
};
const attempt = (run) => { try { run(); return "done"; } catch (error) { return error.code ?? error.message; } };
const overNetwork = () => new Promise((done) => {
  const server = listen((socket) => socket.end("x")).listen(0, "127.0.0.1", () =>
    connect(server.address().port, "127.0.0.1").once("data", () => { server.close(); done("done"); }).once("error", (error) => done(error.code)));
});
const agent = (name, isolate, run) => defineAgent({ name, version: "1.0.0", isolate, methods: { job_start: { run } } });

export default createServer({ port: 0, agents: [
  agent("Thief", true, ({ job }) => job.step("try", async () => ({
    ...Object.fromEntries(Object.entries(tries).map(([name, run]) => [name, attempt(run)])),
    names: Object.keys(process.env).filter((name) => /SERVICE|SECRET|KEY|NODE_OPTIONS/.test(name)),
    network: await overNetwork(),
  }))),
  agent("Worker", { permissions: { read: ["data/inbox"], write: ["out", "out.txt", "out.txt"] } }, ({ job }) => job.step("work", () => {
    const file = join(tmpdir(), "own.txt");
    fs.writeFileSync(file, fs.readFileSync("data/inbox/order.txt", "utf8"));
    fs.mkdirSync("out");
    fs.writeFileSync("out/copy.txt", fs.readFileSync(file, "utf8"));
    fs.writeFileSync("out.txt", fs.readFileSync("out/copy.txt", "utf8"));
    return [fs.readFileSync("notes/read.txt", "utf8"), v.parse(v.string(), "packages"), attempt(tries.key), attempt(tries.program)];
  })),
  agent("Starter", { permissions: { run: true } }, ({ job }) => job.step("start", () => spawnSync("echo", ["started"]).stdout.toString().trim())),
  agent("Free", { permissions: false }, ({ job }) => job.step("all", () => attempt(tries.store))),
  agent("Leaver", { permissions: false }, ({ job }) => job.step("leave", () => {
    process.chdir(tmpdir());
    const name = "a".repeat(200);
    for (let depth = 0; depth < 40; depth++) { fs.mkdirSync(name); process.chdir(name); }
    process.exit(3);
  })),
  agent("Denied", true, ({ job }) => job.step("read", tries.key)),
  agent("Loop", { timeout: "120s" }, ({ job }) => job.step("loop", () => { fs.writeFileSync(1, "looping as " + process.pid + "\\n"); for (;;); })),
] });
`;
const FILES = {
  "controller.mjs": CONTROLLER,
  ".env": "SERVICE_API_KEY=from-a-file",
  "notes/read.txt": "of the project",
  "data/inbox/order.txt": "an order",
};

/** A folder whose content Node cannot remove where its paths are too long. */
async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "folders-"));
  onTestFinished(() => void spawnSync("rm", ["-rf", folder]));
  return folder;
}
const foldersIn = async (folder: string) =>
  (await readdir(folder)).filter((name) => name.startsWith("svc-agent-"));

test(
  "an isolated agent gets neither keys, store, memory and handles of the service, nor starts or changes anything",
  async () => {
    const folder = await project(FILES);
    const env = { OTHER_SECRET: "of the service", NODE_OPTIONS: "--no-warnings" };
    const service = await ServiceProcess.in(folder, env);

    await service.startJob("thief", "job-1");
    const { payload, status } = await service.until("job-1", ["completed", "failed"]);

    const denied = "ERR_ACCESS_DENIED";
    expect(status).toBe("completed");
    expect(payload).toEqual({
      ...{ environment: denied, memory: denied, handles: denied, key: denied, rsa: denied, store: denied },
      ...{ settings: denied, system: denied, program: denied, thread: denied, code: denied },
      ...{ native: "ERR_DLOPEN_DISABLED", link: denied, elsewhere: denied, names: [] },
      // What the documentation says: the network is open.
      network: "done",
    });
    expect(await readFile(join(folder, "controller.mjs"), "utf8")).toBe(CONTROLLER);
    expect(service.output).not.toContain("ExperimentalWarning");
  },
  PROCESS_TIME,
);

test(
  "an isolated agent reads its project and packages, and may do what it was given: read, write, run, or everything",
  async () => {
    const folder = await project(FILES);
    const service = await ServiceProcess.in(folder);

    for (const agent of ["worker", "starter", "free"]) await service.startJob(agent, agent);
    const ends = await Promise.all(
      ["worker", "starter", "free"].map(async (agent) => {
        const { payload, message, status } = await service.until(agent, ["completed", "failed"]);
        return [status, payload ?? message];
      }),
    );

    expect(ends).toEqual([
      ["completed", { result: ["of the project", "packages", "ERR_ACCESS_DENIED", "ERR_ACCESS_DENIED"] }],
      ["completed", "started"],
      ["completed", "done"],
    ]);
    expect(await readFile(join(folder, "out.txt"), "utf8")).toBe("an order");
  },
  PROCESS_TIME,
);

test(
  "an isolated agent in an endless loop does not outlive a service that is killed, nor does its folder",
  async () => {
    const TMPDIR = await makeFolder();
    const service = await ServiceProcess.in(await project(FILES), { TMPDIR });
    await service.startJob("loop", "job-1");
    await expect.poll(() => service.output).toMatch(/looping as \d+/);
    const pid = Number(/looping as (\d+)/.exec(service.output)![1]);

    process.kill(service.pid, "SIGKILL");

    const isAlive = () => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    };
    await expect.poll(isAlive).toBe(false);
    await expect.poll(() => foldersIn(TMPDIR)).toEqual([]);
  },
  PROCESS_TIME,
);

test(
  "whatever an isolated agent leaves in its folder, its end fails its job, and the folder is removed",
  async () => {
    const TMPDIR = await makeFolder();
    const service = await ServiceProcess.in(await project(FILES), { TMPDIR });

    await service.startJob("leaver", "job-1");
    const { error_message } = await service.until("job-1", ["completed", "failed"]);
    await service.startJob("denied", "job-2");
    await service.until("job-2", ["failed"]);
    expect(await service.end()).toBe(0);

    expect(error_message).toMatch(/exited with code 3 while step "leave" was under way/);
    await expect.poll(() => foldersIn(TMPDIR)).toEqual([]);
  },
  PROCESS_TIME,
);

test(
  "a job whose agent was not allowed to do something says what, and how it can be",
  async () => {
    const service = await ServiceProcess.in(await project(FILES));
    await service.startJob("denied", "job-1");

    const { error_message } = await service.until("job-1", ["completed", "failed"]);

    expect(error_message).toMatch(/FileSystemRead .*data\/api-key.*isolate\.permissions allows it/);
  },
  PROCESS_TIME,
);

/** Its agent reads the key of the service where the data folder is, and waits if the environment says so. */
const reader = (isolate: string, options = "") => `
import fs from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const read = () => { try { return fs.readFileSync(process.env.DATA + "/api-key", "utf8"); } catch (error) { return error.code; } };
const run = async ({ job }) => {
  const got = read();
  if (got !== "ERR_ACCESS_DENIED") throw new Error("has read " + got.length + " characters of the key");
  if (process.env.WAITS) await job.waitFor("never");
};
const isolate = ${isolate};
export default createServer({ port: 0, ${options} agents: [defineAgent({ name: "Reader", version: "1.0.0", isolate, methods: { job_start: { run } } })] });
`;
const READS = '{ env: ["DATA", "WAITS"] }';

test.each([
  ["the project", ".", READS, /its project .* is in the data folder .*such as .*data, or let it/],
  ["a folder with the project in it", "..", READS, /its project .* is in the data folder/],
  ["one that it may read", "data", '{ permissions: { read: ["data"] } }', /permissions\.read has "data"/],
  ["below one that it may write", "a/b", '{ permissions: { write: ["a"] } }', /permissions\.write has "a"/],
])(
  "a service whose data folder is %s does not start with an isolated agent, and says what to do",
  async (_, data, isolate, problem) => {
    const cwd = await project({ "service/package.json": "{}", "service/controller.mjs": reader(isolate) });
    const env = { SERVICE_DATA_DIR: data };

    const { code, stderr } = await svc(["start", "controller.mjs"], { cwd: join(cwd, "service"), env });

    expect([code, stderr]).toEqual([1, expect.stringMatching(problem)]);
    expect(stderr).toMatch(/permissions: false/);
  },
  PROCESS_TIME,
);

test.each(["volume/..data/store", "node_modules/.data"])(
  "an isolated agent does not read the data folder %s",
  async (data) => {
    const folder = await project({ "controller.mjs": reader(READS) });
    const service = beginSvc(["start", "controller.mjs"], {
      cwd: folder,
      env: { SERVICE_DATA_DIR: data, DATA: data },
    });
    const [url] = await service.prints(/http:\/\/127\.0\.0\.1:\d+/);
    const headers = {
      "x-api-key": (await readFile(join(folder, data, "api-key"), "utf8")).trim(),
      "content-type": "application/json",
    };
    const body = JSON.stringify({ job_context: jobContext("job-1"), job_fields: {} });
    await fetch(`${url}/agents/reader/jobs`, { method: "POST", headers, body });

    const show = async () =>
      (await (await fetch(`${url}/jobs/job-1`, { headers })).json()) as { status: string };
    await expect.poll(async () => (await show()).status).toMatch(/completed|failed/);
    expect(await show()).toMatchObject({ status: "completed", error_message: null });
  },
  PROCESS_TIME,
);

test(
  "an isolated agent that is given a record by a command does not read the data folder of its service",
  async () => {
    const folder = await project({ "controller.mjs": reader(READS, 'dataDir: "store",') });
    const service = beginSvc(["start", "controller.mjs"], {
      cwd: folder,
      env: { DATA: "store", WAITS: "1" },
    });
    const [url] = await service.prints(/http:\/\/127\.0\.0\.1:\d+/);
    const key = (await readFile(join(folder, "store/api-key"), "utf8")).trim();
    const env = { SERVICE_URL: url!, SERVICE_API_KEY: key, DATA: "store", WAITS: "1" };
    const started = await svc(["job", "start", "reader", "--id", "job-1"], { cwd: folder, env });
    expect(started.code).toBe(0);
    const shown = async () => (await svc(["job", "show", "job-1"], { cwd: folder, env })).stdout;
    await expect.poll(shown, { timeout: 20_000 }).toMatch(/suspended|failed/);

    const check = await svc(["check", "controller.mjs", "--json"], { cwd: folder, env });

    expect(JSON.parse(check.stdout)).toMatchObject({ jobs: 1, fit: 1, problems: [] });
  },
  PROCESS_TIME,
);

test("permissions that do not fit are refused by name", () => {
  const read = (permissions: unknown) => readIsolation({ permissions } as never);

  expect(() => read({ wirte: ["x"] })).toThrow(
    /isolate\.permissions: wirte is not known: did you mean write/,
  );
  expect(() => read({ read: "x" })).toThrow("isolate.permissions.read must be a list of paths");
  expect(() => read({ run: "no" })).toThrow("isolate.permissions.run must be true or false");
  expect(() => read(true)).toThrow("isolate.permissions must be false, or permissions");
});
