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

const { describe, it } = requirement("docker");
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

function setDependency(cwd: string, dependency: string): void {
  const path = join(cwd, "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  manifest.dependencies["agent-control-service"] = dependency;
  delete manifest.devDependencies;
  writeFileSync(path, JSON.stringify(manifest, null, 2));
}

const GONE = ["--yes", "--accept-data-loss"];

/** Deploys locally, runs a job in the container, stops, and looks for what is left. */
async function lifeOf(
  cwd: string,
  name: string,
  agent: readonly string[],
): Promise<{ told: string; job: string }> {
  const port = String(await freePort());
  const target = ["--name", name, "--port", port];
  onTestFinished(async () => void (await svc(cwd, ["deploy", "local", "--stop", ...GONE, ...target])));
  const told = await svc(cwd, [
    "deploy",
    "local",
    "--yes",
    "--generate-api-key",
    "--generate-rsa",
    "--timeout",
    "90",
    ...target,
  ]);
  const key = readFileSync(join(cwd, `.deployment/secrets/${name}-dev/SERVICE_API_KEY`), "utf8");
  const job = await svc(cwd, ["job", "start", ...agent], {
    SERVICE_API_KEY: key,
    SERVICE_URL: `http://127.0.0.1:${port}`,
  });
  await svc(cwd, ["deploy", "local", "--stop", ...GONE, ...target]);
  return { told, job };
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

/** How projects are installed. */
const NPM = ["npm"] as const;
const OTHERS = [
  ["pnpm@10.4.1", ["pnpm@10.4.1", "install", "--lockfile-only"]],
  // An empty lock file tells Yarn that the folder is a project of its own.
  ["yarn@4.18.1", ["@yarnpkg/cli-dist@4.18.1", "install", "--mode=update-lockfile"]],
] as const;
const tried = shareOf([NPM, ...OTHERS], 3);

describe("a new project in containers of this machine", () => {
  if (tried.includes(NPM))
    it("svc init, svc deploy local and a job work, and nothing is left after --stop", async () => {
      const cwd = temporaryProject({});
      const name = unique();
      const dependency = await packInto(cwd);
      await svc(cwd, ["init", "--yes", "--agent", "Word Counter", "--package", dependency]);
      setDependency(cwd, dependency);
      await run("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], { cwd });

      const { told, job } = await lifeOf(cwd, name, [
        "word-counter",
        "--wait",
        "--field",
        'texts:=["Hello"]',
      ]);

      expect(told).toMatch(/Checked +\/\.well-known\/health 200/);
      expect(told).toMatch(/Checked +\/agents\/health 200/);
      expect(told).toMatch(/Checked +\/docs 200/);
      expect(told).toMatch(/API key +\S{40,}/);
      expect(job).toMatch(/completed: 1 words/);
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
