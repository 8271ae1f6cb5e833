// @long
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { openDeployment } from "../../src/deploy/deployment.ts";
import type { DeployEvent } from "../../src/deploy/events.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { up } from "../../src/deploy/up.ts";
import { requirement } from "../_require.ts";
import { keepingPlatform } from "./_keeping-platform.ts";
import { docker, localProject } from "./_local-project.ts";
import { loginRegistry } from "./_registry.ts";
import { shim } from "./_shim.ts";

const { describe, it } = requirement("docker", "buildkit", "registry");
const PASSWORD = "planted-registry-password";

/** What is built once shows in a stamp: a stage of its own, as the installation of packages is. */
const stages = (marker: string) =>
  [
    "FROM node:22-slim AS dependencies",
    "COPY package.json /app/",
    `RUN date +%s%N > /app/${marker}`,
    "FROM node:22-slim",
    `COPY --from=dependencies /app/${marker} /app/${marker}`,
    "COPY src /app/src",
    "",
  ].join("\n");

/** Makes this machine one that has neither the images of a service nor what a build has left since then. */
function forget(since: Date, images: readonly string[]): void {
  for (const image of images) docker("image", "rm", "--force", image);
  const usage = execFileSync("docker", ["system", "df", "--verbose", "--format", "{{json .BuildCache}}"]);
  const records = JSON.parse(usage.toString()) as { ID: string; CreatedAt: string }[];
  const own = records
    .filter(({ CreatedAt }) => new Date(CreatedAt.replace(" +0000 UTC", "Z")) >= since)
    .toSorted((one, other) => (one.CreatedAt < other.CreatedAt ? 1 : -1));
  expect(own.length).toBeGreaterThan(0);
  // A record that another one is based on stays: the newest first.
  for (const { ID } of own) docker("builder", "prune", "--force", "--all", "--filter", `id=${ID}`);
}

describe("the image that runs, in a registry that requires a login", () => {
  async function machine() {
    const registry = await loginRegistry("pusher", PASSWORD);
    const name = `d${Math.random().toString(36).slice(2, 8)}`;
    const marker = `marker-${name}`;
    const cwd = localProject({ ".deployment/Dockerfile": stages(marker) });
    const platform = (await keepingPlatform(registry.host, PASSWORD)) as never;
    const images: string[] = [];
    onTestFinished(() => {
      for (const image of images)
        execFileSync("docker", ["image", "rm", "--force", image], { stdio: "ignore" });
    });
    const deploy = async (tag: string) => {
      const { env, calls } = shim({ buildx: true, compose: false });
      const events: DeployEvent[] = [];
      const deployment = await openDeployment({
        ...{ platform, options: { ...DEFAULT_OPTIONS, name, image: tag }, flags: {}, cwd, env },
        ...{ command: "svc deploy up", emit: (event: DeployEvent) => events.push(event) },
        polling: { firstWait: 1, interval: 0.1, timeout: 5 },
      });
      try {
        const { image } = await up(deployment, async () => true);
        const local = `${registry.host}/team/${name}-dev:${tag}`;
        images.push(local);
        const stamp = docker("run", "--rm", local, "cat", `/app/${marker}`);
        return { image, local, stamp, calls: calls(), events };
      } finally {
        await deployment.close();
      }
    };
    return { cwd, registry, deploy };
  }

  it("is the cache of a build on a machine that never built it, and is not left there", async () => {
    const { cwd, deploy } = await machine();
    const since = new Date();
    const first = await deploy("one");
    forget(since, [first.local, first.image]);
    writeFileSync(join(cwd, "src/more.ts"), "export {};\n");

    const second = await deploy("two");

    expect(second.stamp).toBe(first.stamp);
    expect(second.image).not.toBe(first.image);
    const words = second.calls.map((call) => call.join(" "));
    expect(words).toContainEqual(expect.stringMatching(/^docker buildx build .* --cache-from \S+@sha256:/));
    expect(words).toContain(`docker image rm ${first.image}`);
    expect(JSON.stringify([second.calls, second.events])).not.toMatch(/planted-/);
    expect(() => execFileSync("docker", ["image", "inspect", first.image], { stdio: "ignore" })).toThrow();
  });

  it("is built without where it cannot be pulled, and that is said", async () => {
    const { cwd, registry, deploy } = await machine();
    const since = new Date();
    const first = await deploy("one");
    forget(since, [first.local, first.image]);
    rmSync(registry.images, { recursive: true });
    writeFileSync(join(cwd, "src/more.ts"), "export {};\n");

    const second = await deploy("two");

    expect(second.stamp).not.toBe(first.stamp);
    expect(JSON.stringify(second.events)).toContain("the running image cannot be pulled");
  });
});
