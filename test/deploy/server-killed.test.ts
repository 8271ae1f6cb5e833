import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { docker, freePort } from "./_local-project.ts";
import type { ServerChild } from "./server/child.ts";
import { KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

/** Runs a deployment in a process of its own; resolves with its signal, and the lines of its journal. */
async function runChild(
  child: string,
  options: ServerChild,
): Promise<{ signal: string | null; lines: number }> {
  const running = spawn(process.execPath, [child, JSON.stringify(options)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  running.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  return new Promise((resolve) =>
    running.once("close", (_, signal) => resolve({ signal, lines: Number(out.trim()) })),
  );
}

describe("svc deploy up to a server, killed at a line of its journal", () => {
  it("finishes when it is repeated: one container, the wanted release, no lock, no journal", async () => {
    const port = await freePort();
    const at = await site(sshd.config, port);
    const mine = at.checkout();
    const child = await bundleChild(new URL("server/child.ts", import.meta.url));
    const { name, serviceName } = at;
    const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1" };
    const options = { name, port, cwd: mine.cwd, flags, env: { SERVICE_API_KEY: KEY } };
    mine.step("first");
    await mine.up();
    mine.step("undisturbed");
    const { lines } = await runChild(child, { ...options, killAt: 0 });
    expect(lines).toBeGreaterThan(8);

    const failures: string[] = [];
    // Below the platform and its host.
    const journal = join(mine.cwd, `.deployment/state/server/server/${serviceName}.journal`);
    expect(existsSync(journal.replace(/journal$/, "json"))).toBe(true);
    const kills = shareOf(
      Array.from({ length: lines }, (_, index) => index + 1),
      8,
    );
    for (const killAt of kills) {
      mine.step(`killed at ${killAt}`);
      const { signal } = await runChild(child, { ...options, killAt });
      if (signal !== "SIGKILL") failures.push(`${killAt}: ended with ${signal}`);
      const { release } = await mine.up();
      const left = at.running();
      const label = `label=agent-control-service.service=${serviceName}`;
      const candidates = docker(
        "ps",
        "--all",
        "--format",
        "{{.Names}}",
        "--filter",
        label,
        "--filter",
        "name=.new",
      );
      if (release.env?.STEP !== `killed at ${killAt}`) failures.push(`${killAt}: ${release.env?.STEP}`);
      if (left.length !== 1 || candidates !== "") failures.push(`${killAt}: ${left} ${candidates}`);
      if (docker("ps", "--all", "--quiet", "--filter", `name=${serviceName}.lock`) !== "")
        failures.push(`${killAt}: the lock is left`);
      if (existsSync(journal)) failures.push(`${killAt}: the journal is left`);
    }

    expect(failures).toEqual([]);
  }, 600_000);
});
