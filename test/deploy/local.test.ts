// @alone
// @long
import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import type { DeployEvent } from "../../src/deploy/events.ts";
import type { LocalOptions } from "../../src/deploy/local/local-run.ts";
import { openLocal } from "../../src/deploy/local/local-run.ts";
import { localStop } from "../../src/deploy/local/local-stop.ts";
import { localUp } from "../../src/deploy/local/local-up.ts";
import { requirement } from "../_require.ts";
import { allText, temporaryProject, writeAll } from "./_fixture.ts";
import { imageFiles } from "./_image-text.ts";
import { docker, dropPacked, freePort, localProject } from "./_local-project.ts";
import { shim } from "./_shim.ts";

const { describe, it } = requirement("docker");
const withBuildKit = requirement("docker", "buildkit");

afterAll(dropPacked);

const DEFAULTS: LocalOptions = {
  name: undefined,
  env: "dev",
  port: 8000,
  generateApiKey: false,
  generateRsa: false,
  timeout: 30,
  filesOnly: false,
  sourceDir: "src",
  controllerFile: undefined,
  overwriteFiles: false,
  acceptDataLoss: true,
};

interface Started {
  readonly cwd: string;
  readonly name: string;
  readonly port: number;
  readonly events: DeployEvent[];
  open(options?: Partial<LocalOptions>, env?: Record<string, string>): ReturnType<typeof openLocal>;
}

async function local(files: Record<string, string> = {}): Promise<Started> {
  const cwd = localProject(files);
  const config = temporaryProject({});
  const name = `t${Math.random().toString(36).slice(2, 8)}`;
  const port = await freePort();
  const events: DeployEvent[] = [];
  const open: Started["open"] = (options = {}, env = {}) =>
    openLocal({
      options: { ...DEFAULTS, name, port, ...options },
      cwd,
      env: { ...(process.env as Record<string, string>), XDG_CONFIG_HOME: config, ...env },
      emit: (event) => events.push(event),
    });
  onTestFinished(async () => void (await localStop(await open(), async () => true)));
  return { cwd, name, port, events, open };
}

async function whoami({ port }: Started): Promise<{ uid: number; env: Record<string, string> }> {
  return (await (await fetch(`http://127.0.0.1:${port}/whoami`)).json()) as never;
}

describe("svc deploy local", () => {
  it("does not report success for a container that another folder started in the meantime", async () => {
    const at = await local();
    const other = await local({ "src/controller.ts": "// another one\n" });
    const mine = await at.open({ generateApiKey: true });
    const key = () =>
      readFileSync(join(at.cwd, `.deployment/secrets/${at.name}-dev/SERVICE_API_KEY`), "utf8");
    const { fetch } = mine.tools;
    let once = true;
    const late: typeof fetch = async (input, init) => {
      if (once && String(input).endsWith("/docs")) {
        once = false;
        await localUp(await other.open({ name: at.name, port: at.port }, { SERVICE_API_KEY: key() }));
      }
      return fetch(input, init);
    };

    const failed = localUp({ ...mine, tools: Object.create(mine.tools, { fetch: { value: late } }) });

    await expect(failed).rejects.toMatchObject({ code: "superseded", exitCode: 6 });
  });

  it("runs the service in a container, checks it, updates it and removes everything", async () => {
    const at = await local();

    const first = await localUp(await at.open({ generateApiKey: true, generateRsa: true }));
    const inside = await whoami(at);
    const key = readFileSync(join(at.cwd, `.deployment/secrets/${at.name}-dev/SERVICE_API_KEY`), "utf8");
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {LOG_LEVEL: debug}" });
    const second = await localUp(await at.open({ generateApiKey: true, generateRsa: true }));
    const updated = await whoami(at);
    await localStop(await at.open(), async () => true);

    expect(first.service?.endpoints.map(({ path, status }) => [path, status])).toEqual([
      ["/.well-known/health", 200],
      ["/agents/health", 200],
      ["/docs", 200],
    ]);
    expect(inside.uid).toBe(1000);
    expect(inside.env.SERVICE_API_KEY).toBe(key);
    expect(inside.env.SERVICE_RSA_PRIVATE_KEY).toMatch(
      /^-----BEGIN PRIVATE KEY-----\n[\s\S]*\n-----END PRIVATE KEY-----/,
    );
    expect(first.service?.apiKey).toBe(key);
    expect(second.service?.apiKey).toBe(key);
    expect(updated.env.LOG_LEVEL).toBe("debug");
    const label = ["--filter", `label=com.docker.compose.project=svc-${at.name}-dev`];
    expect(docker("ps", "--all", "--quiet", ...label)).toBe("");
    expect(docker("volume", "ls", "--quiet", ...label)).toBe("");
    expect(docker("network", "ls", "--quiet", ...label)).toBe("");
    expect(docker("images", "--quiet", "--filter", `label=agent-control-service.project=${at.name}`)).toBe(
      "",
    );
    expect(readFileSync(join(at.cwd, ".gitignore"), "utf8")).toBe(".deployment/\n");
  }, 240_000);

  withBuildKit.it(
    "no secret is in a layer, in the history, in the files or in the output",
    async () => {
      const at = await local({
        ".env": "TOKEN=planted-in-env-file",
        ".npmrc": "//npm.example/:_authToken=planted-in-npmrc\nfund=false\n",
        "data/api-key": "planted-in-data",
        "certs/tls.key": "planted-in-key-file",
        ...Object.fromEntries(
          ["", "src/", "src/a/b/"].flatMap((folder) =>
            [
              "x.env",
              ".env.local",
              ".netrc",
              ".aws/credentials",
              "x.pfx",
              "gha-creds-1.json",
              "x.tfstate",
            ].map((name) => [`${folder}${name}`, "planted-by-name"]),
          ),
        ),
        "src/a/state/MANIFEST.json": '{"format": 1, "files": []}',
        "src/a/state/journal.1.jsonl": "planted-in-a-journal",
        "src/a/.npmrc": "//npm.example/:_authToken=planted-deep",
        ".yarnrc.yml": "npmAuthToken: planted-for-yarn\n",
        ".dockerignore": "class[0-9].txt\n",
        "class1.txt": "planted-in-class",
        ".deployment/config.yaml":
          "secrets: [{name: ERP_TOKEN}, {name: OTHER, value: planted-in-config, description: x}]",
      });
      const secrets = { ERP_TOKEN: "planted-in-environment", SERVICE_API_KEY: "planted-api-key" };
      const { env, calls } = shim({ buildx: true, compose: true });
      const surroundings = { ...env, ...secrets, NPM_TOKEN: "planted-at-build-time" };

      await localUp(await at.open({ generateRsa: true }, surroundings));
      const inside = await whoami(at);
      const image = `${at.name}-dev:local-test`;
      const layers = JSON.parse(docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image));
      const hits: string[] = [];
      let stands = false;
      let archives = 0;
      for (const { file, bytes } of imageFiles(image)) {
        if (bytes.includes("planted-")) hits.push(file);
        if (bytes.includes("cannot find the controller")) stands = true;
        if (bytes.subarray(257, 262).toString() === "ustar") archives++;
      }
      const rsa = readFileSync(
        join(at.cwd, `.deployment/secrets/${at.name}-dev/SERVICE_RSA_PRIVATE_KEY`),
        "utf8",
      );
      const told = JSON.stringify([at.events, calls()]);
      const written = allText(join(at.cwd, ".deployment"), ["config.yaml", "SERVICE_RSA_PRIVATE_KEY"]);

      expect(hits).toEqual([]);
      // What is looked for would be found: the stand-in's own text is.
      expect(stands).toBe(true);
      expect(archives).toBe(layers.length);
      expect(inside.env).toMatchObject({ ...secrets, OTHER: "planted-in-config" });
      expect(docker("history", "--no-trunc", image)).not.toMatch(/planted/);
      expect(docker("image", "inspect", image)).not.toMatch(/planted/);
      expect(told).toContain("--secret");
      for (const text of [told, written]) {
        expect(text).not.toMatch(/planted/);
        expect(text).not.toContain(rsa.split("\n")[1]);
      }
    },
    240_000,
  );

  it("a service that exits, or does not become healthy in time, is reported with its last output", async () => {
    const at = await local({ ".deployment/config.yaml": "environment: {SICK: exit}" });

    const ended = await localUp(await at.open({ timeout: 120 })).catch((error: unknown) => error);
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {SICK: '500'}" });
    const sick = await localUp(await at.open({ timeout: 3 })).catch((error: unknown) => error);

    expect(ended).toMatchObject({
      exitCode: 1,
      message: "The service exited right after its start",
      log: expect.arrayContaining(["cannot find the controller"]),
    });
    expect(sick).toMatchObject({
      exitCode: 1,
      message: "The service did not become healthy within 3 s",
      log: ["listening start src/controller.ts"],
    });
  }, 240_000);

  it("a failed build shows the end of its log, and what failed", async () => {
    const at = await local({
      ".deployment/Dockerfile": "FROM node:22-slim\nRUN echo about to fail && exit 3\n",
    });

    const failed = localUp(await at.open());

    await expect(failed).rejects.toMatchObject({
      code: "build_failed",
      log: expect.arrayContaining(["about to fail"]),
    });
  });
});

describe("svc deploy local in a project from another author", () => {
  it("does not start a container from a compose file that this user did not write", async () => {
    const mark = join(temporaryProject({}), "mark");
    const compose = `services: {service: {image: "node:22-slim", command: ["touch", "/host/${"mark"}"], volumes: ["${mark.replace(/\/mark$/, "")}:/host"]}}`;
    const at = await local({ ".deployment/docker-compose.yml": compose });

    const refused = await localUp(await at.open()).catch((error: unknown) => error);
    const ids = docker(
      "ps",
      "--all",
      "--quiet",
      "--filter",
      `label=com.docker.compose.project=svc-${at.name}-dev`,
    );

    expect(refused).toMatchObject({ exitCode: 5, fix: expect.stringContaining("--trust-files") });
    expect([existsSync(mark), ids]).toEqual([false, ""]);
    expect(at.events.some((event) => event.type === "step" && event.id === "build")).toBe(false);
  });
});

describe("svc deploy local and the port", () => {
  let taken: ReturnType<typeof createServer>;
  beforeAll(async () => {
    taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => void taken.close());

  it("a port in use is reported before anything is built", async () => {
    const at = await local();
    const address = taken.address();
    const port = typeof address === "object" && address ? address.port : 0;

    const failed = localUp(await at.open({ port }));

    await expect(failed).rejects.toMatchObject({
      exitCode: 5,
      message: `Port ${port} is in use`,
      fix: expect.stringContaining(`--port ${port + 1}`),
    });
    expect(at.events.some((event) => event.type === "step" && event.id === "build")).toBe(false);
  });
});

describe("svc deploy local --docker-files-only", () => {
  it("writes the files of the specification and runs nothing", async () => {
    const at = await local();

    const { files, service } = await localUp(await at.open({ filesOnly: true }));

    expect(service).toBeUndefined();
    expect(files.map(({ file }) => file)).toEqual([
      "Dockerfile",
      ".dockerignore",
      "Dockerfile.dockerignore",
      "docker-compose.yml",
      "cloudbuild.yaml",
      "do-app-spec.yaml",
      "DEPLOY_AUTOMATION.md",
    ]);
    expect(statSync(join(at.cwd, ".deployment")).mode & 0o777).toBe(0o700);
  });
});
