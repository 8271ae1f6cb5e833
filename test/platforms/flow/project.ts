import { execFile } from "node:child_process";
import { appendFileSync, copyFileSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { packPackage } from "../../_built.ts";
import { useKnownVersions } from "../../_known-versions.ts";
import { FLOWS } from "./clouds.ts";

const run = promisify(execFile);
const ROOT = new URL("../../..", import.meta.url).pathname;
/** What a user installs beside the package to deploy with it. */
const CLIENTS = /^(google-auth-library|@aws-sdk\/client-.+)$/;

/** A project as `svc init` writes it, in a git repository, with this package installed from its tarball. */
export interface Project extends AsyncDisposable {
  readonly name: string;
  /** What `npm install` made. */
  readonly packages: string;
  /** A copy of one's own, with its history. */
  copyTo(folder: string): Promise<string>;
}

export async function newProject(): Promise<Project> {
  const folder = mkdtempSync(join(tmpdir(), "svc-project-"));
  // Images carry the name as a label: one of its own keeps two runs on one machine apart.
  const name = `f${Math.random().toString(36).slice(2, 8)}`;
  const cwd = join(folder, name);
  const { tarball } = await packPackage();
  const init = ["init", name, "--yes", "--package", `file:./${basename(tarball)}`];
  await run(process.execPath, [join(ROOT, "dist/cli.js"), ...init], { cwd: folder });
  copyFileSync(tarball, join(cwd, basename(tarball)));
  useKnownVersions(cwd);
  await run("npm", ["install", "--omit=dev", "--prefer-offline", "--no-audit", "--no-fund"], { cwd });
  const packages = join(cwd, "node_modules");
  for (const client of clients()) {
    await mkdir(dirname(join(packages, client)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", client), join(packages, client));
  }
  await git(cwd, "init", "--quiet");
  await commit(cwd, "a word counter");
  return {
    name,
    packages,
    async copyTo(into) {
      const copy = join(into, name);
      await git(folder, "clone", "--quiet", cwd, copy);
      symlinkSync(packages, join(copy, "node_modules"));
      // The project ignores a folder of that name; this one is a link.
      appendFileSync(join(copy, ".git/info/exclude"), "node_modules\n");
      return copy;
    },
    async [Symbol.asyncDispose]() {
      for (const { suffix = "" } of FLOWS) await dropImages(`${name}${suffix}`);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Takes what was built of a project out of the engine, where there is one: what has a tag first, then what it was made of. */
async function dropImages(name: string): Promise<void> {
  const label = `label=agent-control-service.project=${name}`;
  try {
    const { stdout } = await run("docker", [
      "images",
      "--format",
      "{{.Repository}}:{{.Tag}}",
      "--filter",
      label,
    ]);
    const tags = stdout.split("\n").filter((tag) => tag !== "" && !tag.includes("<none>"));
    if (tags.length > 0) await run("docker", ["rmi", "--force", ...tags]);
    await run("docker", ["image", "prune", "--force", "--filter", label]);
  } catch {
    // Without an engine there are no images.
  }
}

/** Commits all that is there; the id as image tags have it. */
export async function commit(cwd: string, message: string): Promise<string> {
  await git(cwd, "add", "--all");
  await git(
    cwd,
    "-c",
    "user.name=Ada",
    "-c",
    "user.email=ada@example.com",
    "commit",
    "--quiet",
    "-m",
    message,
  );
  return git(cwd, "rev-parse", "--short=12", "HEAD");
}

async function git(cwd: string, ...args: string[]): Promise<string> {
  return (await run("git", args, { cwd })).stdout.trim();
}

function clients(): string[] {
  const names = [
    "google-auth-library",
    ...readdirSync(join(ROOT, "node_modules/@aws-sdk")).map((one) => `@aws-sdk/${one}`),
  ];
  return names.filter((name) => CLIENTS.test(name));
}
