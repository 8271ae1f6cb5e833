import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { LogOutput } from "../../src/core/base/log-output.ts";
import { requirement } from "../_require.ts";
import { access, beginSvc, PROCESS_TIME, project, REPOSITORY, type Running } from "./_svc.ts";

const CLI = join(REPOSITORY, "dist/cli.js");
/** Logs 4 MB when some jobs end. */
const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";

const agent = defineAgent({
  name: "Chatty",
  version: "1.0.0",
  methods: { job_start: { run: async () => ({ message: "done" }) } },
});
const chatty = {
  name: "chatty",
  setup({ log, hooks }) {
    hooks.on("job:finished", ({ job }) => {
      log.info("a job has ended", { job: job.id });
      if (job.id !== "fills" && job.id !== "full") return;
      for (let line = 0; line < 1000; line++) log.info("x".repeat(4000));
    });
  },
};
const service = createServer({ agents: [agent], plugins: [chatty], port: 0, logLevel: "info" });
export default service;
`;

/** What a service answers to a job and a question for its health. */
async function use(cwd: string, id: string): Promise<number[]> {
  const { url, key } = await access(cwd);
  const started = await fetch(`${url}/agents/chatty/jobs`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify({ job_context: contextOf(id), job_fields: {} }),
  });
  await expect
    .poll(async () => {
      const job = await fetch(`${url}/jobs/${id}`, { headers: { "x-api-key": key } });
      return ((await job.json()) as { status: string }).status;
    })
    .toBe("completed");
  return [started.status, (await fetch(`${url}/.well-known/health`)).status];
}

const contextOf = (job_id: string) => ({
  ...{ workspace_id: "w", job_id, started_by: "test", started_at: "2026-01-01T00:00:00Z" },
  ...{ mission_id: "m", mission_name: "Mission" },
});

const listens = (cwd: string) =>
  expect
    .poll(() =>
      access(cwd).then(
        ({ url }) => fetch(url).then(({ status }) => status),
        () => 0,
      ),
    )
    .toBeGreaterThan(0);

const isRunning = ({ process: { exitCode, signalCode } }: Running) =>
  exitCode === null && signalCode === null;

describe("a service whose log", { timeout: PROCESS_TIME }, () => {
  const tmpfs = requirement("tmpfs");

  tmpfs.it("is on a full disk answers, rests, and logs again once there is room", async () => {
    const cwd = await project({ "controller.js": CONTROLLER });
    const disk = mkdtempSync(join(tmpdir(), "log-full-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]);
    onTestFinished(() => {
      execFileSync("umount", ["-l", disk]);
      rmSync(disk, { recursive: true });
    });
    const [log, filler] = [join(disk, "log"), join(disk, "filler")];
    writeFileSync(filler, Buffer.alloc(512 * 1024));
    const command = ["sh", "-c", 'exec "$@" > "$LOG" 2>&1', "sh", process.execPath, CLI];
    const service = beginSvc(["start", "controller.js", "--port", "0"], { cwd, command, env: { LOG: log } });
    await listens(cwd);

    const first = await use(cwd, "fills");
    await expect.poll(() => statfsSync(disk).bavail).toBe(0);
    const second = await use(cwd, "full");
    const writes = () =>
      Number(/syscw: (\d+)/.exec(readFileSync(`/proc/${service.process.pid}/io`, "utf8"))![1]);
    const before = writes();
    const { url } = await access(cwd);
    for (let nth = 0; nth < 20; nth++) await fetch(`${url}/.well-known/health`);
    const made = writes() - before;
    rmSync(filler);
    const third = await use(cwd, "room");

    expect([first, second, third]).toEqual([
      [202, 200],
      [202, 200],
      [202, 200],
    ]);
    expect(made).toBeLessThan(500);
    await expect.poll(() => readFileSync(log, "utf8")).toMatch(/lines of the log were lost.*"lost":\d{3,}/);
    expect(readFileSync(log, "utf8")).toContain('"job":"room"');
    expect(isRunning(service)).toBe(true);
  });

  it("nobody reads any longer keeps running, also in a program of your own", async () => {
    const cwd = await project({
      "main.js": `${CONTROLLER}\nawait service.listen();\nawait (await import("node:fs/promises")).writeFile("data/address", service.url);`,
    });
    const service = beginSvc(["main.js"], { cwd, command: [process.execPath] });
    await listens(cwd);
    service.process.stdout!.destroy();
    service.process.stderr!.destroy();

    expect(await use(cwd, "a")).toEqual([202, 200]);
    expect(await use(cwd, "b")).toEqual([202, 200]);
    expect(isRunning(service)).toBe(true);
  });

  it("is a pipe whose reader has stopped keeps a few megabytes of lines, and says how many it lost", async () => {
    const reader = spawn("cat", { stdio: ["pipe", "ignore", "ignore"] });
    onTestFinished(() => void reader.kill("SIGKILL"));
    const reports: number[] = [];
    const output = new LogOutput(
      () => reader.stdin,
      (lost) => reports.push(lost),
    );
    const line = `${"x".repeat(99_999)}\n`;
    reader.kill("SIGSTOP");

    for (let count = 0; count < 200; count++) output.write(line);
    const waiting = reader.stdin.writableLength;
    reader.kill("SIGCONT");
    await expect.poll(() => reader.stdin.writableLength).toBe(0);
    output.write(line);
    await expect.poll(() => reports.length).toBe(1);
    output.write(line);
    await expect.poll(() => reader.stdin.writableLength).toBe(0);

    expect(waiting).toBeLessThan(5 * 1024 * 1024);
    expect(reports).toEqual([expect.any(Number)]);
    expect(reports[0]).toBeGreaterThan(150);
  });
});

describe("a service that may not write to its store", { timeout: PROCESS_TIME }, () => {
  requirement("prlimit").it("is unhealthy and says so until it may write again", async () => {
    const cwd = await project({ "controller.js": CONTROLLER });
    const service = beginSvc(["start", "controller.js", "--port", "0"], { cwd });
    await listens(cwd);
    const { url, key } = await access(cwd);
    const health = async () => (await fetch(`${url}/.well-known/health`)).status;
    const start = async (id: string) => {
      const body = JSON.stringify({ job_context: contextOf(id), job_fields: {} });
      const headers = { "x-api-key": key, "content-type": "application/json" };
      return (await fetch(`${url}/agents/chatty/jobs`, { method: "POST", headers, body })).status;
    };
    const limit = (size: string) =>
      execFileSync("prlimit", ["--pid", `${service.process.pid}`, `--fsize=${size}`]);
    await use(cwd, "before");

    limit("0:unlimited");
    const refused = await start("refused");
    const states = [];
    for (let nth = 0; nth < 8; nth++) states.push(await health());
    await service.prints(/Store: A write to the disk failed \(EFBIG\)/);
    limit("unlimited:unlimited");

    expect(refused).toBe(503);
    expect(new Set(states)).toEqual(new Set([503]));
    await expect.poll(health).toBe(200);
    await service.prints(/Store: writing again/);
    expect(await use(cwd, "after")).toEqual([202, 200]);
  });
});
