import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openDeployment } from "../../src/core/deploy/deployment.ts";
import { DEFAULT_OPTIONS } from "../../src/core/deploy/options.ts";
import { up } from "../../src/core/deploy/up.ts";
import { PROJECT, writeAll } from "./_fixture.ts";
import { memoryPlatform } from "./_memory-platform.ts";
import type { WorldFile } from "./_world.ts";
import { openWorld, serveWorld } from "./_world.ts";

const CHILD = new URL("_child.mjs", import.meta.url).pathname;
/** Children at a time. */
const WIDTH = 3;

interface Site {
  readonly cwd: string;
  readonly world: WorldFile;
  readonly worldPath: string;
  readonly base: string;
  close(): Promise<void>;
}

async function site(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "svc-resume-"));
  const cwd = join(folder, "hello");
  writeAll(cwd, PROJECT);
  const worldPath = join(folder, "world.json");
  const world = openWorld(worldPath);
  const served = await serveWorld(world);
  return {
    cwd,
    world,
    worldPath,
    base: served.url,
    async close() {
      await served.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function runChild(
  { cwd, worldPath, base }: Site,
  killAt: number,
): Promise<{ signal: string | null; out: string }> {
  const options = JSON.stringify({ cwd, world: worldPath, base, killAt });
  const child = spawn(process.execPath, [CHILD, options], {
    cwd: new URL("../..", import.meta.url).pathname,
    env: { PATH: process.env.PATH ?? "", CHILD_CACHE: cache },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  return new Promise((resolve) => child.once("close", (_code, signal) => resolve({ signal, out })));
}

async function resume({ cwd, world, base }: Site) {
  const deployment = await openDeployment({
    platform: memoryPlatform({ world, base }) as never,
    options: { ...DEFAULT_OPTIONS, name: "hello", generateApiKey: true },
    flags: {},
    cwd,
    env: { PATH: process.env.PATH },
    command: "svc deploy up",
    emit: () => undefined,
    polling: { firstWait: 0.2, interval: 0.05, timeout: 0.4 },
  });
  try {
    return await up(deployment, async () => true);
  } finally {
    await deployment.close();
  }
}

const cache = mkdtempSync(join(tmpdir(), "svc-child-"));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

describe("a deployment killed at any line of its journal", () => {
  it("ends when it is run again as if it had not been killed: no call twice, none forgotten", async () => {
    const undisturbed = await site();
    const { out } = await runChild(undisturbed, 0);
    const lines = Number(out);
    const calls = undisturbed.world.read().calls;
    const services = shape(undisturbed.world);
    await undisturbed.close();
    expect(lines).toBeGreaterThan(15);

    const kills = Array.from({ length: lines }, (_, index) => index + 1);
    const failures: string[] = [];
    const work = async () => {
      for (let killAt = kills.shift(); killAt !== undefined; killAt = kills.shift()) {
        const at = await site();
        try {
          const { signal } = await runChild(at, killAt);
          const { result } = await resume(at);
          const made = at.world.read().calls;
          if (signal !== "SIGKILL") failures.push(`${killAt}: ended with ${signal}`);
          if (!result.success) failures.push(`${killAt}: ${result.error_message}`);
          if (String(made) !== String(calls)) failures.push(`${killAt}: ${made}`);
          if (shape(at.world) !== services) failures.push(`${killAt}: ${shape(at.world)}`);
          if (existsSync(join(at.cwd, ".deployment/state/memory/hello-dev.journal")))
            failures.push(`${killAt}: the journal is left`);
        } finally {
          await at.close();
        }
      }
    };
    await Promise.all(Array.from({ length: WIDTH }, work));

    expect(failures).toEqual([]);
  }, 240_000);
});

/** What stands in a world, without what differs between two runs by nature. */
function shape(world: WorldFile): string {
  const { services, secrets, prepared } = world.read();
  const revisions = Object.values(services).map((service) => ({
    serving: service.serving,
    revisions: service.revisions.map(({ name, env, secrets: refs }) => [
      name,
      Object.keys(env).sort(),
      Object.values(refs),
    ]),
  }));
  const kept = Object.values(secrets).map((mine) =>
    Object.entries(mine).map(([key, { version }]) => [key, version]),
  );
  return JSON.stringify({ revisions, kept, prepared });
}
