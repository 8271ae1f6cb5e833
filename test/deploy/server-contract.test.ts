// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { toTar } from "../../src/deploy/tar.ts";
import { namesOf } from "../../src/plugins/platforms/server/context.ts";
import server from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { textFile } from "./_context.ts";
import { docker, freePort } from "./_local-project.ts";
import { removeAllOf } from "./_server.ts";

const { describe, it, met } = requirement("docker", "sshd");
const images: string[] = [];
let sshd: Sshd | undefined;

beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  const tools = createDeployTools({ cwd: tmpdir() });
  for (const word of ["one", "two"]) {
    const answer = `{ status: 'healthy', word: '${word}' }`;
    const script = `require('http').createServer((q, s) => s.end(JSON.stringify(${answer}))).listen(process.env.SERVICE_PORT)`;
    const dockerfile = `FROM node:22-slim\nCMD ["node", "-e", ${JSON.stringify(script)}]\n`;
    const built = await tools.exec("docker", ["build", "--quiet", "-"], {
      input: toTar([textFile("Dockerfile", dockerfile)]),
    });
    images.push(built.stdout.trim());
  }
}, 120_000);

afterAll(async () => {
  await sshd?.close();
  for (const image of images) docker("image", "rm", "--force", image);
});

let cases = 0;
const tried = shareOf([0, 1], 2);

platformContract("server", {
  describe,
  // Each case has a service of its own: a check of a commit tries every other one.
  it(title, body, timeout) {
    cases += 1;
    if (tried.includes(cases % 2)) it(title, body, timeout);
  },
  timeout: 120_000,
  setup,
});

it("labels are those of the container; one that is not named stays, and null removes it", async () => {
  const { target, tools, close, images } = await setup();
  onTestFinished(() => close());
  const spec = {
    ...{ image: images[0], imageTag: "one", port: target.port, env: {}, secrets: {}, secretHashes: {} },
    ...{ publicUrl: undefined, healthPath: "/" },
  };
  const release = async (labels: Record<string, string | null> | undefined) => {
    const session = await server.connect({ ...target, labels } as never, tools);
    const planned = JSON.stringify(await session.plan(spec, await session.inspect()));
    const unlock = await session.lock?.(
      { id: "one", holder: "a test", since: new Date().toISOString() },
      { seconds: 60, breakLock: false },
    );
    await session.release(spec);
    await unlock?.();
    await session.close?.();
    const [serving = ""] = docker("ps", "--quiet", "--filter", `name=${target.serviceName}`).split("\n");
    const found = JSON.parse(docker("inspect", "--format", "{{json .Config.Labels}}", serving));
    return { planned, serving, team: found.team, cost: found.cost };
  };

  const first = await release({ team: "agents", cost: "42" });
  const second = await release({ cost: null });
  const third = await release(undefined);

  expect(first).toMatchObject({ team: "agents", cost: "42" });
  expect(second).toMatchObject({ team: "agents", cost: undefined });
  expect(second.planned).toContain('"field":"label.cost","from":"42","to":null');
  expect(third).toMatchObject({ serving: second.serving, team: "agents" });
});

async function setup() {
  const cwd = mkdtempSync(join(tmpdir(), "svc-server-"));
  const serviceName = `contract-${Math.random().toString(36).slice(2, 8)}-dev`;
  const sent = (id = "") => `${namesOf(serviceName).repository}@${id}`;
  return {
    platform: server,
    target: {
      name: "contract",
      environment: "dev",
      serviceName,
      region: "server",
      projectId: undefined,
      port: await freePort(),
      flags: { host: "server", sshConfig: sshd?.config, bind: "127.0.0.1" },
      cwd,
    },
    settings: [{ memory: "256m" }, { cpus: "0.5" }, { memory: "none" }],
    ways: ["host", "sshConfig", "acceptNewHost", "removeData", "bind", "domain", "postgres"],
    tools: createDeployTools({ cwd }),
    images: [sent(images[0]), sent(images[1])] as const,
    close() {
      removeAllOf(serviceName);
      rmSync(cwd, { recursive: true, force: true });
    },
  };
}
