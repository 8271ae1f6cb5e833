import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import { afterAll, beforeAll } from "vitest";
import sshDocker from "../../examples/ssh-docker/platform.ts";
import { toTar } from "../../src/core/deploy/tar.ts";
import { requirement } from "../_require.ts";

/** The engine of this machine stands for one that ssh would reach. */
const HOST = "unix:///var/run/docker.sock";
const { describe, it, met } = requirement("docker");
const tools = createDeployTools({ cwd: tmpdir() });
const images: string[] = [];

beforeAll(async () => {
  if (!met) return;
  for (const word of ["one", "two"]) {
    const script = `require('http').createServer((q, s) => s.end('${word}')).listen(process.env.PORT_IN)`;
    const dockerfile = `FROM node:22-slim\nCMD ["node", "-e", ${JSON.stringify(script)}]\n`;
    const input = toTar([{ path: "Dockerfile", content: Buffer.from(dockerfile) }]);
    const built = await tools.exec("docker", ["build", "--quiet", "-"], { input });
    images.push(`contract@${built.stdout.trim()}`);
  }
}, 120_000);

afterAll(async () => {
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

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}
