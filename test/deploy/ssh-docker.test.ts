// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import sshDocker from "../../examples/ssh-docker/platform.ts";
import { openDeployment } from "../../src/deploy/deployment.ts";
import { down } from "../../src/deploy/down.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { toTar } from "../../src/deploy/tar.ts";
import { up } from "../../src/deploy/up.ts";
import { requirement } from "../_require.ts";
import { textFile } from "./_context.ts";
import { writeAll } from "./_fixture.ts";
import { docker, dropPacked, freePort, localProject } from "./_local-project.ts";

/** This machine's engine replaces one that ssh would reach. */
const HOST = "unix:///var/run/docker.sock";
const { describe, it, met } = requirement("docker");
const tools = createDeployTools({ cwd: tmpdir() });
const images: string[] = [];

beforeAll(async () => {
  if (!met) return;
  for (const word of ["one", "two"]) {
    const script = `require('http').createServer((q, s) => s.end('${word}')).listen(process.env.PORT_IN)`;
    const dockerfile = `FROM node:22-slim\nCMD ["node", "-e", ${JSON.stringify(script)}]\n`;
    const input = toTar([textFile("Dockerfile", dockerfile)]);
    const built = await tools.exec("docker", ["build", "--quiet", "-"], { input });
    images.push(`contract@${built.stdout.trim()}`);
  }
}, 120_000);

afterAll(async () => {
  dropPacked();
  if (images.length > 0)
    await tools.exec("docker", [
      "image",
      "rm",
      "--force",
      ...images.map((image) => image.split("@")[1] ?? ""),
    ]);
});

platformContract("ssh-docker", {
  describe,
  it,
  timeout: 120_000,
  async setup() {
    const cwd = mkdtempSync(join(tmpdir(), "svc-ssh-"));
    const serviceName = `contract-${Math.random().toString(36).slice(2, 8)}-dev`;
    return {
      platform: sshDocker,
      target: {
        name: "contract",
        environment: "dev",
        serviceName,
        region: "server",
        projectId: undefined,
        port: await freePort(),
        flags: { host: HOST, address: "127.0.0.1" },
        cwd,
      },
      tools: createDeployTools({ cwd }),
      images: [images[0] ?? "", images[1] ?? ""],
      async close() {
        await tools.exec("docker", ["rm", "--force", serviceName]);
        const filter = ["--filter", `label=svc.service=${serviceName}`];
        const volumes = await tools.exec("docker", ["volume", "ls", "--quiet", ...filter]);
        const names = [`${serviceName}-data`, ...volumes.stdout.split("\n").filter(Boolean)];
        await tools.exec("docker", ["volume", "rm", "--force", ...names]);
        rmSync(cwd, { recursive: true, force: true });
      },
    };
  },
});

describe("svc deploy to a machine over ssh", () => {
  it("deploys, changes, rolls an unhealthy release back and removes what it created", async () => {
    const cwd = localProject();
    const name = `t${Math.random().toString(36).slice(2, 8)}`;
    const port = await freePort();
    onTestFinished(() => {
      docker("rm", "--force", `${name}-dev`);
      const volumes = docker("volume", "ls", "--quiet", "--filter", `name=${name}-dev`)
        .split("\n")
        .filter(Boolean);
      if (volumes.length > 0) docker("volume", "rm", ...volumes);
    });
    const deployed = async (config: string) => {
      writeAll(cwd, { ".deployment/config.yaml": config });
      const deployment = await open();
      try {
        return await up(deployment, async () => true);
      } finally {
        await deployment.close();
      }
    };
    const open = () =>
      openDeployment({
        platform: sshDocker as never,
        // The stand-in has no list of jobs to be asked for.
        options: { ...DEFAULT_OPTIONS, name, port, generateApiKey: true, acceptDataLoss: true },
        flags: { host: HOST },
        cwd,
        env: process.env,
        command: "svc deploy up",
        emit: () => undefined,
        polling: { firstWait: 8, interval: 0.5, timeout: 1 },
      });
    const told = async () =>
      (await (await fetch(`http://127.0.0.1:${port}/whoami`)).json()) as { env: Record<string, string> };

    const first = await deployed("environment: {STEP: one}");
    const one = await told();
    const idle = await deployed("environment: {STEP: one}");
    await deployed("environment: {STEP: two}");
    const two = await told();
    const sick = await deployed("environment: {STEP: three, SICK: '500'}").catch((error: unknown) => error);
    const restored = await told();
    const last = await open();
    const { removed } = await down(last, async () => true);
    await last.close();
    docker("image", "prune", "--force", "--filter", `label=agent-control-service.project=${name}`);
    docker("image", "rm", "--force", first.image.split("@")[1] ?? "");

    expect(first.result).toMatchObject({ success: true, service_url: `http://127.0.0.1:${port}` });
    expect([one.env.STEP, two.env.STEP, restored.env.STEP]).toEqual(["one", "two", "two"]);
    expect(restored.env.SERVICE_API_KEY).toBe(one.env.SERVICE_API_KEY);
    expect(idle.changed).toBe(false);
    expect(sick).toMatchObject({ code: "rolled_back", exitCode: 3 });
    expect(removed).toEqual([`service ${name}-dev`, "secret SERVICE_API_KEY"]);
    expect(docker("ps", "--all", "--quiet", "--filter", `name=${name}`)).toBe("");
    expect(docker("volume", "ls", "--quiet", "--filter", `name=${name}`)).toBe("");
  }, 240_000);
});
