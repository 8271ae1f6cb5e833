// @long
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished } from "vitest";
import { createDeployTools } from "../../src/deploy/create-tools.ts";
import { openDeployment } from "../../src/deploy/deployment.ts";
import { buildImage, findDocker } from "../../src/deploy/docker.ts";
import type { DeployEvent } from "../../src/deploy/events.ts";
import { openLocal } from "../../src/deploy/local/local-run.ts";
import { localStop } from "../../src/deploy/local/local-stop.ts";
import { localUp } from "../../src/deploy/local/local-up.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { toTar } from "../../src/deploy/tar.ts";
import { up } from "../../src/deploy/up.ts";
import { requirement } from "../_require.ts";
import { allText } from "./_fixture.ts";
import { keepingPlatform } from "./_keeping-platform.ts";
import { docker, dropPacked, freePort, localProject } from "./_local-project.ts";
import { loginRegistry } from "./_registry.ts";
import type { Plugins } from "./_shim.ts";
import { shim } from "./_shim.ts";

/** Runs the stand-in that is packed in the project: an image that is built in a moment. */
const SMALL = {
  ".deployment/Dockerfile":
    'FROM node:22-slim\nWORKDIR /app\nCOPY . .\nRUN tar xzf *.tgz\nCMD ["node", "package/svc.js"]\n',
};
const NPMRC = "//npm.example/:_authToken=planted-npm-token\nfund=false\n";
const unique = () => `d${Math.random().toString(36).slice(2, 8)}`;
const { describe, it } = requirement("docker");

afterAll(dropPacked);

/** Runs a project's service in containers with a docker that has these plugins, and stops it. */
async function localWith(plugins: Plugins, files: Record<string, string> = {}) {
  const cwd = localProject({ ...SMALL, ...files });
  const name = unique();
  const port = await freePort();
  const { env, calls } = shim(plugins);
  const events: DeployEvent[] = [];
  const open = () =>
    openLocal({
      options: { ...LOCAL, name, port },
      cwd,
      env: { ...env, XDG_CONFIG_HOME: "", SERVICE_API_KEY: "planted-api-key" },
      emit: (event) => events.push(event),
    });
  onTestFinished(async () => void (await localStop(await open(), async () => true)));
  const outcome = await localUp(await open());
  const platform = docker(
    "image",
    "inspect",
    "--format",
    "{{.Os}}/{{.Architecture}}",
    `${name}-dev:local-test`,
  );
  await localStop(await open(), async () => true);
  return { cwd, name, calls: calls(), events, outcome, platform };
}

const LOCAL = {
  env: "dev",
  generateApiKey: false,
  generateRsa: false,
  timeout: 60,
  filesOnly: false,
  sourceDir: "src",
  controllerFile: undefined,
  overwriteFiles: false,
  acceptDataLoss: true,
} as const;

const withBuildKit = requirement("docker", "buildkit");

describe("svc deploy local with different Docker installations", () => {
  withBuildKit.it(
    "builds with buildx and starts with the compose plugin if both are installed",
    async () => {
      const { cwd, name, calls, events, outcome, platform } = await localWith(
        { buildx: true, compose: true },
        { ".npmrc": NPMRC },
      );

      const words = calls.map((call) => call.join(" ").replace(/(?<=\.context=)[0-9a-f]+/, "HASH"));
      expect(outcome.service?.endpoints.every(({ ok }) => ok)).toBe(true);
      expect(platform).toBe("linux/amd64");
      expect(words).toContain(
        `docker buildx build --load --provenance=false --progress=plain --secret id=npmrc,src=${cwd}/.npmrc --platform linux/amd64 --label agent-control-service.context=HASH --tag ${name}-dev:local-test -`,
      );
      expect(words).toContain(
        `docker compose --project-name svc-${name}-dev --file ${cwd}/.deployment/docker-compose.yml up --detach --remove-orphans`,
      );
      expect(words.filter((call) => /^docker build |^docker-compose /.test(call))).toEqual([]);
      expect(JSON.stringify([calls, events])).not.toMatch(/planted-/);
      expect(allText(join(cwd, ".deployment"))).not.toMatch(/planted-/);
    },
    240_000,
  );

  it("builds with the classic builder and starts with docker-compose if neither is installed", async () => {
    const { cwd, name, calls, outcome, platform } = await localWith({ buildx: false, compose: false });

    const words = calls.map((call) => call.join(" ").replace(/(?<=\.context=)[0-9a-f]+/, "HASH"));
    expect(outcome.service?.endpoints.every(({ ok }) => ok)).toBe(true);
    expect(platform).toBe("linux/amd64");
    expect(words).toContain(
      `docker build --force-rm --platform linux/amd64 --label agent-control-service.context=HASH --tag ${name}-dev:local-test -`,
    );
    expect(words).toContain(
      `docker-compose --project-name svc-${name}-dev --file ${cwd}/.deployment/docker-compose.yml up --detach --remove-orphans`,
    );
    expect(words.filter((call) => /^docker (buildx build|compose --)/.test(call))).toEqual([]);
  }, 240_000);

  it("refuses to build with a login in .npmrc if the builder has no secrets", async () => {
    const { env, calls } = shim({ buildx: false, compose: true });
    const tools = createDeployTools({ cwd: tmpdir(), env });

    const built = buildImage(tools, await findDocker(tools), {
      tar: toTar([]),
      ref: "never:built",
      secretFiles: ["/home/me/.npmrc"],
    });

    await expect(built).rejects.toMatchObject({ exitCode: 5, fix: expect.stringContaining("buildx") });
    expect(calls().filter(([, word]) => word === "build")).toEqual([]);
  });
});

const withRegistry = requirement("docker", "registry");

withRegistry.describe("an image pushed to a registry that requires a login", () => {
  const PASSWORD = "planted-registry-password";

  async function pushed(password: string) {
    const registry = await loginRegistry("pusher", PASSWORD);
    const cwd = localProject({ ".deployment/Dockerfile": "FROM scratch\nCOPY package.json /\n" });
    const name = unique();
    const { env, calls, dockerFolder } = shim({ buildx: false, compose: false });
    const users = join(dockerFolder, "config.json");
    writeFileSync(users, '{"auths": {"registry.example": {}}, "psFormat": "{{.Names}}"}');
    const before = { text: readFileSync(users, "utf8"), changed: statSync(users).mtimeMs };
    const events: DeployEvent[] = [];
    const deployment = await openDeployment({
      platform: (await keepingPlatform(registry.host, password)) as never,
      options: { ...DEFAULT_OPTIONS, name, image: "1.10" },
      flags: {},
      cwd,
      env: { ...env, TMPDIR: dockerFolder },
      command: "svc deploy up",
      emit: (event) => events.push(event),
      polling: { firstWait: 1, interval: 0.1, timeout: 1 },
    });
    onTestFinished(() => deployment.close());
    const outcome = await up(deployment, async () => true).catch((error: unknown) => error);
    const repository = `team/${name}-dev`;
    const digest = await registry.digestOf(repository, "1.10");
    docker("image", "rm", "--force", `${registry.host}/${repository}:1.10`);
    const after = { text: readFileSync(users, "utf8"), changed: statSync(users).mtimeMs };
    return {
      registry,
      repository,
      cwd,
      calls: calls(),
      events,
      outcome,
      digest,
      before,
      after,
      dockerFolder,
    };
  }

  withRegistry.it(
    "runs by its digest in the registry, and the login is not stored",
    async () => {
      const { registry, repository, cwd, calls, events, outcome, digest, before, after, dockerFolder } =
        await pushed(PASSWORD);

      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(outcome).toMatchObject({
        image: `${registry.host}/${repository}@${digest}`,
        result: { success: true, image_digest: digest },
        release: { image: `${registry.host}/${repository}@${digest}` },
      });
      const push = calls.find((call) => call.includes("push")) ?? [];
      expect([push[1], ...push.slice(3)]).toEqual([
        "--config",
        "push",
        `${registry.host}/${repository}:1.10`,
      ]);
      expect(existsSync(push[2] ?? "")).toBe(false);
      expect(push[2]).not.toContain(dockerFolder);
      expect(calls.some((call) => call.includes("login"))).toBe(false);
      expect(JSON.stringify([calls, events, outcome])).not.toMatch(/planted-|cHVzaGVyO/);
      expect(allText(join(cwd, ".deployment"))).not.toMatch(/planted-/);
      expect(readdirSync(dockerFolder)).toEqual(["config.json"]);
      expect(after).toEqual(before);
    },
    240_000,
  );

  withRegistry.it(
    "is not released with a wrong login, and the error says so",
    async () => {
      const { calls, outcome, digest, before, after } = await pushed("planted-wrong-password");

      expect(outcome).toMatchObject({
        code: "login_expired",
        message: expect.stringContaining("rejected the login"),
        fix: expect.stringContaining("Log in to 127.0.0.1"),
      });
      expect(digest).toBeNull();
      expect(JSON.stringify([calls, outcome])).not.toMatch(/planted-/);
      expect(after).toEqual(before);
    },
    240_000,
  );
});
