import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build as bundle } from "rolldown";
import { compiledTemplates } from "../compile-templates.ts";
import { packContext } from "../src/deploy/build-context.ts";
import { createDeployTools } from "../src/deploy/create-tools.ts";
import { buildImage, findDocker } from "../src/deploy/docker.ts";
import { readProject } from "../src/deploy/project.ts";
import { writeTemplates } from "../write-templates.ts";
import type { BenchRow } from "./row.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const PLAIN = 'FROM node:22-slim\nWORKDIR /app\nCOPY . .\nRUN npm install\nCMD ["npx", "svc", "start"]\n';
const OURS = "bench-ours:local";
const OTHER = "bench-plain:local";

/** The image of the hello example beside that of a plain single-stage Dockerfile. Needs Docker and a built package. */
export async function run(): Promise<BenchRow[]> {
  const cwd = mkdtempSync(join(tmpdir(), "svc-bench-deploy-"));
  const own = mkdtempSync(join(tmpdir(), "svc-bench-own-"));
  const tools = createDeployTools({ cwd, env: process.env });
  const docker = await findDocker(tools);
  try {
    makeProject(cwd);
    const input = {
      project: await readProject(cwd),
      name: "bench",
      serviceName: "bench-dev",
      port: 8000,
      localImage: OURS,
      imageTag: "local",
      env: {},
      secretNames: [],
    };
    const { renderTemplates } = await loadTemplates(own);
    const files = await renderTemplates(input);
    const ignore = files[".dockerignore"] ?? "";
    const build = async (ref: string, dockerfile: string) => {
      const begun = performance.now();
      const context = await packContext(input.project, { dockerfile, dockerignore: ignore });
      await buildImage(tools, docker, { tar: context.tar(), ref });
      return (performance.now() - begun) / 1000;
    };
    const plain = await build(OTHER, PLAIN);
    const first = await build(OURS, files.Dockerfile ?? "");
    const second = await build(OURS, files.Dockerfile ?? "");

    const base = sizeOf("node:22-slim");
    const modules = modulesOf(OURS);
    const size = sizeOf(OURS);
    const other = sizeOf(OTHER);
    const share = size / (base + modules);
    return [
      {
        name: "first build",
        value: first,
        unit: "s",
        baseline: { name: "plain", value: plain },
        ratio: first / plain,
      },
      { name: "second build, nothing changed", value: second, unit: "s", target: "<= 5", ok: second <= 5 },
      {
        name: "image",
        value: size,
        unit: "MB",
        baseline: { name: "plain", value: other },
        ratio: size / other,
      },
      {
        name: "image beside base and production modules",
        value: size,
        unit: "MB",
        baseline: { name: "both", value: base + modules },
        ratio: share,
        target: "<= 1.1",
        ok: share <= 1.1,
      },
    ];
  } finally {
    await tools.exec("docker", ["image", "rm", "--force", OURS, OTHER]);
    const label = "label=agent-control-service.project=bench";
    await tools.exec("docker", ["image", "prune", "--force", "--filter", label]);
    rmSync(own, { recursive: true, force: true });
    rmSync(cwd, { recursive: true, force: true });
  }
}

function makeProject(cwd: string): void {
  const npm = (...args: string[]) => execFileSync("npm", args, { cwd, stdio: "ignore" });
  cpSync(join(ROOT, "examples/hello"), join(cwd, "src"), { recursive: true });
  npm("pack", ROOT, "--ignore-scripts", "--silent");
  const tarball = readdirSync(cwd).find((file) => file.endsWith(".tgz"));
  const dependencies = { "agent-control-service": `file:./${tarball}`, valibot: "^1.5.0" };
  writeFileSync(
    join(cwd, "package.json"),
    JSON.stringify({
      name: "bench",
      type: "module",
      dependencies,
      devDependencies: { typescript: "^7.0.2" },
    }),
  );
  npm("install", "--package-lock-only", "--no-audit", "--no-fund");
}

/** Megabytes of an image. */
function sizeOf(image: string): number {
  const text = execFileSync("docker", ["image", "inspect", "--format", "{{.Size}}", image], {
    encoding: "utf8",
  });
  return Number(text) / 1e6;
}

/** Megabytes of the installed modules in an image, by the length of their files. */
function modulesOf(image: string): number {
  const args = ["run", "--rm", image, "du", "--summarize", "--bytes", "/app/node_modules"];
  return Number(execFileSync("docker", args, { encoding: "utf8" }).split("\t")[0]) / 1e6;
}

/** The module as the package has it: with its templates compiled. */
async function loadTemplates(folder: string): Promise<typeof import("../src/deploy/templates.ts")> {
  writeTemplates(join(folder, "templates"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const dir = join(folder, "deploy");
  await bundle({
    ...{ input: join(ROOT, "src/deploy/templates.ts"), external: /^[^./]/, platform: "node" },
    plugins: [compiledTemplates()],
    output: { dir, entryFileNames: "templates.mjs", chunkFileNames: "[name].mjs" },
  });
  return import(join(dir, "templates.mjs"));
}
