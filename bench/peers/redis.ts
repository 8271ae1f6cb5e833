import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.ts";

/** A private Redis that appends each write to its file; `undefined` if the machine has none. */
export async function beginRedis(
  more: readonly string[] = [],
): Promise<(AsyncDisposable & { port: number }) | undefined> {
  if (spawnSync("redis-server", ["--version"]).status !== 0) return undefined;
  const dir = await mkdtemp(join(tmpdir(), "bench-redis-"));
  const port = await freePort();
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""];
  const child = spawn("redis-server", [...options, "--appendonly", "yes", ...more], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const text of child.stdout.setEncoding("utf8"))
    if (String(text).includes("Ready to accept")) break;
  return {
    port,
    async [Symbol.asyncDispose]() {
      const gone = once(child, "exit");
      child.kill();
      await gone;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
