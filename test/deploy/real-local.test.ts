// @alone
// @long
import { execFile } from "node:child_process";
import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, onTestFinished } from "vitest";
import { packPackage } from "../_built.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { temporaryProject } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { postgresImage } from "./_postgres-image.ts";

const { describe, it } = requirement("docker");
const withPostgres = requirement("docker", "postgres");
const run = promisify(execFile);
const ROOT = new URL("../..", import.meta.url).pathname;
const SVC = join(ROOT, "dist/cli.js");

/** Folder of the configuration of the user that runs the commands. */
const config = mkdtempSync(join(tmpdir(), "svc-config-"));
afterAll(() => rmSync(config, { recursive: true, force: true }));

/** Lays this package, packed, into a project's folder; what the project depends on then. */
async function packInto(cwd: string): Promise<string> {
  const { tarball } = await packPackage();
  copyFileSync(tarball, join(cwd, basename(tarball)));
  return `file:./${basename(tarball)}`;
}

/** Runs the command of this package in a project; its standard output. */
async function svc(cwd: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const own = { CI: "1", XDG_CONFIG_HOME: config };
  const options = { cwd, env: { ...process.env, ...own, ...env }, maxBuffer: 16 * 1024 * 1024 };
  const { stdout } = await run(process.execPath, [SVC, ...args], options);
  return stdout;
}

function setDependency(cwd: string, dependency: string, others: Record<string, string> = {}): void {
  const path = join(cwd, "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  Object.assign(manifest.dependencies, { "agent-control-service": dependency, ...others });
  // An optional peer of the package: its manager installs it with the production dependencies.
  manifest.devDependencies = { "google-auth-library": "^10.0.0" };
  writeFileSync(path, JSON.stringify(manifest, null, 2));
}

const GONE = ["--yes", "--accept-data-loss"];

/** A service that `svc deploy local` has started. */
interface Running {
  readonly cwd: string;
  readonly name: string;
  /** Options that name it. */
  readonly target: readonly string[];
  /** What commands need to reach it. */
  readonly reach: Record<string, string>;
}

/** Deploys locally, runs a job in the container, stops, and looks for what is left. */
async function lifeOf(
  cwd: string,
  name: string,
  agent: readonly string[],
  goOn: (at: Running) => Promise<void> = async () => undefined,
): Promise<{ told: string; job: string }> {
  const port = String(await freePort());
  const target = ["--name", name, "--port", port];
  onTestFinished(async () => void (await svc(cwd, ["deploy", "local", "--stop", ...GONE, ...target])));
  const told = await svc(cwd, [
    "deploy",
    "local",
    "--yes",
    // Its packages are installed in the image only.
    "--no-check",
    "--generate-api-key",
    "--generate-rsa",
    "--timeout",
    "90",
    ...target,
  ]);
  const key = readFileSync(join(cwd, `.deployment/secrets/${name}-dev/SERVICE_API_KEY`), "utf8");
  const reach = { SERVICE_API_KEY: key, SERVICE_URL: `http://127.0.0.1:${port}` };
  const job = await svc(cwd, ["job", "start", ...agent], reach);
  await goOn({ cwd, name, target, reach });
  await svc(cwd, ["deploy", "local", "--stop", ...GONE, ...target]);
  return { told, job };
}

/**
 * The same service in three containers beside a database: a job asks, the container that has it is killed, and the answer
 * through the proxy reaches another one, which ends the job.
 */
async function surviveAKill({ cwd, name, target, reach }: Running): Promise<void> {
  const container = (service: string) => {
    const filters = [`project=svc-${name}-dev`, `service=${service}`];
    return docker(
      "ps",
      "--quiet",
      ...filters.flatMap((one) => ["--filter", `label=com.docker.compose.${one}`]),
    );
  };
  const ask = async (path: string, body?: unknown) => {
    const headers = { "x-api-key": reach.SERVICE_API_KEY ?? "", "content-type": "application/json" };
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const response = await fetch(`${reach.SERVICE_URL}${path}`, { headers, ...sent });
    return { code: response.status, ...((await response.json()) as { status?: string; message?: string }) };
  };

  const started = await svc(cwd, [
    ...["deploy", "local", "--yes", "--no-check", "--timeout", "90", "--instances", "3"],
    ...["--postgres-image", postgresImage(), ...target],
  ]);
  expect(started).toMatch(/Running in 3 containers behind a proxy/);
  expect(await ask("/.well-known/health")).toMatchObject({ code: 200, probe: "done" });
  const compose = readFileSync(join(cwd, ".deployment/docker-compose.yml"), "utf8");
  const password = readFileSync(join(cwd, `.deployment/secrets/${name}-dev/POSTGRES_PASSWORD`), "utf8");
  const database = container("postgres");
  expect(`${started}${compose}${docker("inspect", database)}`).not.toContain(password);

  const job = JSON.parse(
    await svc(
      cwd,
      ["job", "start", "word-counter", "--json", "--field", 'texts:=["To be, or not to be"]'],
      reach,
    ),
  ) as { id: string };
  await expect.poll(async () => (await ask(`/jobs/${job.id}`)).status, { timeout: 30_000 }).toBe("awaiting");
  const owner = `select i._body::json->>'host' from agent_control_service."Job" j join agent_control_service."Instance" i on i.id = j.owner where j.id = '${job.id}'`;
  const host = docker("exec", database, "psql", "-U", "service", "-Atc", owner);
  docker("kill", host);

  const answered = await ask(`/jobs/${job.id}/cases/text-1/update`, { answer: { keep: false } });
  expect(answered).toMatchObject({ code: 200 });
  await expect
    .poll(async () => (await ask(`/jobs/${job.id}`)).message, { timeout: 60_000, interval: 500 })
    .toBe("Words: 0");
  expect([1, 2, 3].filter((at) => container(`service-${at}`) !== "")).toHaveLength(2);

  // What was started last stays: the instances come back, over the same data.
  const again = await svc(cwd, ["deploy", "local", "--yes", "--no-check", "--timeout", "90", ...target]);
  expect(again).toMatch(/Running in 3 containers behind a proxy/);
  expect(await ask(`/jobs/${job.id}`)).toMatchObject({ message: "Words: 0" });
}

function leftOf(name: string): string[] {
  const label = ["--filter", `label=com.docker.compose.project=svc-${name}-dev`];
  return [
    docker("ps", "--all", "--quiet", ...label),
    docker("volume", "ls", "--quiet", ...label),
    docker("network", "ls", "--quiet", ...label),
    docker("images", "--quiet", "--filter", `label=agent-control-service.project=${name}`),
  ].filter(Boolean);
}

const unique = () => `r${Math.random().toString(36).slice(2, 8)}`;

/** A command in a container of the image, as the service runs there. */
function inside(image: string, script: string): string {
  return docker("run", "--rm", "--read-only", "--cap-drop", "ALL", image, "node", "-e", script);
}

/** The image has what the service needs, and nothing that only a build or a deployment needs. */
function expectLean({ cwd, name }: Running): void {
  const image = `${name}-dev:local-test`;
  expect(Number(docker("image", "inspect", "--format", "{{.Size}}", image))).toBeLessThan(220e6);
  const script = `const { existsSync, readdirSync } = require("node:fs");
    const have = (path) => existsSync(path);
    const files = readdirSync("/app/node_modules", { recursive: true });
    console.log(JSON.stringify({
      user: process.getuid(),
      own: have("/app/node_modules/agent-control-service"),
      deploys: files.filter((file) => /^(google-auth-library|@aws-sdk|@smithy|typescript|@typescript)\\b/.test(file)),
      maps: files.filter((file) => file.endsWith(".map")),
      tools: ["npm", "npx", "corepack", "yarn", "gcc", "cc", "make", "python3"].filter((one) =>
        ["/usr/local/bin/", "/usr/bin/"].some((folder) => have(folder + one)),
      ),
    }))`;
  expect(JSON.parse(inside(image, script))).toEqual({
    user: 1000,
    own: true,
    deploys: [],
    maps: [],
    tools: [],
  });

  const compose = JSON.parse(
    docker(
      "inspect",
      docker("ps", "--quiet", "--filter", `label=com.docker.compose.project=svc-${name}-dev`),
    ),
  )[0].HostConfig;
  expect(compose).toMatchObject({
    ReadonlyRootfs: true,
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges:true"],
  });
  const path = join(cwd, "package-lock.json");
  expect(readFileSync(path, "utf8")).toContain("node_modules/google-auth-library");
}

/** How projects are installed. */
const NPM = ["npm"] as const;
const OTHERS = [
  ["pnpm@10.4.1", ["pnpm@10.4.1", "install", "--lockfile-only"]],
  // An empty lock file tells Yarn that the folder is a project of its own.
  ["yarn@4.18.1", ["@yarnpkg/cli-dist@4.18.1", "install", "--mode=update-lockfile"]],
] as const;
const tried = shareOf([NPM, ...OTHERS], 3);

if (!withPostgres.met) withPostgres.it("three instances beside a database survive a kill", () => undefined);

describe("a new project in containers of this machine", () => {
  if (tried.includes(NPM))
    it("svc init, svc deploy local and a job work, and nothing is left after --stop", async () => {
      const cwd = temporaryProject({});
      const name = unique();
      const dependency = await packInto(cwd);
      await svc(cwd, ["init", "--yes", "--agent", "Word Counter", "--package", dependency]);
      setDependency(cwd, dependency, { pg: "^8.16.0" });
      await run("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], { cwd });

      const words = ["word-counter", "--wait", "--field", 'texts:=["Hello"]'];
      const { told, job } = await lifeOf(cwd, name, words, async (at) => {
        expectLean(at);
        if (withPostgres.met) await surviveAKill(at);
      });

      expect(told).toMatch(/Checked +\/\.well-known\/health 200/);
      expect(told).toMatch(/Checked +\/agents\/health 200/);
      expect(told).toMatch(/Checked +\/docs 200/);
      expect(told).toMatch(/API key +\S{40,}/);
      expect(job).toMatch(/completed: Words: 1/);
      expect(leftOf(name)).toEqual([]);
    }, 600_000);

  for (const [packageManager, lock] of OTHERS.filter((one) => tried.includes(one)))
    it(`the invoice audit, in TypeScript and installed with ${packageManager}`, async () => {
      const cwd = temporaryProject({
        "package.json": JSON.stringify({
          name: "audit",
          type: "module",
          packageManager,
          dependencies: { valibot: "^1.5.0" },
        }),
        ...(packageManager.startsWith("yarn") ? { "yarn.lock": "" } : {}),
      });
      cpSync(join(ROOT, "examples/invoice-audit"), join(cwd, "src"), { recursive: true });
      const name = unique();
      setDependency(cwd, await packInto(cwd));
      await run("npx", ["--yes", ...lock], { cwd });

      const { told, job } = await lifeOf(cwd, name, ["invoice-audit", "--json"]);

      expect(told).toMatch(/Checked +\/agents\/health 200/);
      expect(JSON.parse(job)).toMatchObject({ agent_name: "invoice-audit" });
      expect(leftOf(name)).toEqual([]);
    }, 600_000);
});
