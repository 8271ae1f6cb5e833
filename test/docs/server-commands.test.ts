// @long
import { spawn } from "node:child_process";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { writeAll } from "../deploy/_fixture.ts";
import { freePort } from "../deploy/_local-project.ts";
import { site } from "../deploy/server/site.ts";
import { newProject, type Project } from "../platforms/flow/project.ts";
import { filled, SERVER_LINES } from "./_deploy-lines.ts";

const { it, met } = requirement("docker", "sshd");

let sshd: Sshd;
let project: Project;
beforeAll(async () => {
  if (met) [sshd, project] = await Promise.all([startSshd(), newProject()]);
}, 180_000);
afterAll(() => Promise.all([sshd?.close(), project?.[Symbol.asyncDispose]()]));

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";

const run = () => "done";
export default createServer({ agents: [defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run } } })] });
`;

it("the command lines of the pages deploy to a server with the packed package", async () => {
  const port = await freePort();
  const at = await site(sshd.config, port);
  const { cwd } = at.checkout();
  rmSync(join(cwd, "node_modules"), { recursive: true, force: true });
  symlinkSync(project.packages, join(cwd, "node_modules"));
  const settings = { name: at.name, port, sshConfig: sshd.config, bind: "127.0.0.1" };
  writeAll(cwd, { "src/controller.ts": CONTROLLER, "deploy.yaml": JSON.stringify(settings) });

  for (const { line, prints, asks } of SERVER_LINES) {
    const { code, output } = await type(cwd, asks ? `${filled(line)} --yes` : filled(line), prints);
    expect(output, line).toMatch(prints);
    // What follows a log is interrupted.
    if (!line.endsWith("--follow")) expect(code, `${line}\n${output}`).toBe(0);
  }
}, 240_000);

/** Types a line into a shell, which is interrupted once a line that would not end has printed what it should. */
function type(cwd: string, line: string, prints: RegExp): Promise<{ code: number | null; output: string }> {
  const { PATH, HOME } = process.env;
  const child = spawn("bash", ["-c", line], {
    cwd,
    env: { PATH, HOME, CI: "1" },
    stdio: "pipe",
    detached: true,
  });
  child.stdin.end();
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (line.endsWith("--follow") && prints.test(output)) process.kill(-child.pid!, "SIGINT");
    });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}
