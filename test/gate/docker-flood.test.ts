// @area service admin protocols
// @long
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { buildPackage } from "../_built.ts";
import { requirement } from "../_require.ts";
import { flood } from "./_flood.ts";

const { it } = requirement("docker");
const run = promisify(execFile);
const ROOT = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
const IMAGE = "node:20-slim";
const LIMIT = 250e6;

/** Lists its routes, so that none is omitted. */
const SERVICE = `
import { createServer, defineAgent } from "./dist/index.js";
import { ROUTER } from "./dist/plugin.js";
const agent = defineAgent({ name: "A", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
const service = createServer({ agents: [agent], host: "0.0.0.0", port: 8000, dataDir: "/tmp/data" });
await service.listen();
const routes = service.get(ROUTER).routes.filter(({ method }) => method === "POST");
console.log(JSON.stringify(routes.map(({ path, body, auth }) => ({ path, auth, json: body !== undefined }))));
`;

async function docker(...args: string[]): Promise<string> {
  return (await run("docker", args)).stdout.trim();
}

it("a service in 512 MB survives a body of 1 GB without a key, sent to every POST, and stays under 250 MB", async () => {
  await using built = await buildPackage();
  await writeFile(join(built.folder, "service.mjs"), SERVICE);
  const folders = [ROOT, built.folder, ...built.linked].flatMap((folder) => [
    "--volume",
    `${folder}:${folder}:ro`,
  ]);
  const container = await docker(
    ...["run", "--detach", "--memory", "512m", "--memory-swap", "512m", "--publish", "127.0.0.1::8000"],
    ...[...folders, "--workdir", built.folder, IMAGE, "node", "service.mjs"],
  );
  onTestFinished(async () => void (await docker("rm", "--force", container)));
  const port = Number((await docker("port", container, "8000/tcp")).split(":").at(-1));
  await expect.poll(() => docker("logs", container), { timeout: 60_000 }).toContain("[{");
  const routes = JSON.parse(
    (await docker("logs", container)).split("\n").find((line) => line[0] === "[")!,
  ) as {
    path: string;
    auth: string;
    json: boolean;
  }[];

  const statuses: string[] = [];
  for (const { path, auth, json } of routes) {
    const type = json ? "application/json" : "application/x-www-form-urlencoded";
    const at = path.replace(/\{\w+\}/g, "x");
    const { status } = await flood(port, { method: "POST", path: at, type, megabytes: 1024 });
    const expected = auth === "none" ? 413 : 401;
    // Who is cut off while it sends may never get to read its answer.
    if (status !== expected && status !== 0) statuses.push(`${path}: ${status}`);
  }

  const health = await fetch(`http://127.0.0.1:${port}/.well-known/health`);
  const memory = await docker("exec", container, "grep", "VmHWM", "/proc/1/status");
  const { OOMKilled, Running } = JSON.parse(
    await docker("inspect", "--format", "{{json .State}}", container),
  );
  expect(routes.length).toBeGreaterThan(30);
  expect(statuses).toEqual([]);
  expect([health.status, Running, OOMKilled]).toEqual([200, true, false]);
  expect(Number(/\d+/.exec(memory)?.[0]) * 1024).toBeLessThan(LIMIT);
}, 600_000);
