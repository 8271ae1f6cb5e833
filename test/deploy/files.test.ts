import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packContext } from "../../src/core/deploy/build-context.ts";
import { createDeployTools } from "../../src/core/deploy/create-tools.ts";
import { parseIgnore } from "../../src/core/deploy/dockerignore.ts";
import { run } from "../../src/core/deploy/exec.ts";
import { ignoreFolder, writeFiles } from "../../src/core/deploy/files.ts";
import { resolveImageTag } from "../../src/core/deploy/image-tag.ts";
import { readProject } from "../../src/core/deploy/project.ts";
import { toTar } from "../../src/core/deploy/tar.ts";
import { renderTemplates } from "../../src/core/deploy/templates.ts";
import { PROJECT, temporaryProject, writeAll } from "./_fixture.ts";

const DOCKER_FILES = { dockerfile: "FROM x\n", dockerignore: ".deployment\n**/*.key\n" };

describe("generated files", () => {
  it("are written again when they change, until the user edits them", async () => {
    const cwd = temporaryProject({});
    await writeFiles(cwd, { Dockerfile: "FROM one\n" });

    const changed = await writeFiles(cwd, { Dockerfile: "FROM two\n" });
    const path = join(cwd, ".deployment/Dockerfile");
    writeFileSync(path, `${readFileSync(path, "utf8")}USER me\n`);
    const edited = await writeFiles(cwd, { Dockerfile: "FROM three\n" });
    const text = readFileSync(path, "utf8");
    const forced = await writeFiles(cwd, { Dockerfile: "FROM three\n" }, () => true);

    expect([changed[0]?.outcome, edited[0]?.outcome, forced[0]?.outcome]).toEqual([
      "written",
      "kept",
      "written",
    ]);
    expect(text).toContain("FROM two\nUSER me");
  });

  it("the config is the user's from the start", async () => {
    const cwd = temporaryProject({ ".deployment/config.yaml": "environment: {A: b}\n" });

    const [outcome] = await writeFiles(cwd, { "config.yaml": "environment: {}\n" });

    expect(outcome?.outcome).toBe("kept");
  });

  it.each([
    ["", ".deployment/\n", true],
    ["node_modules", "node_modules\n.deployment/\n", true],
    ["/.deployment\n", "/.deployment\n", false],
    [".deployment/\n", ".deployment/\n", false],
  ])("the folder is ignored once: %j", async (before, after, changed) => {
    const cwd = temporaryProject({ ".gitignore": before });

    expect(await ignoreFolder(cwd)).toBe(changed);
    await ignoreFolder(cwd);

    expect(readFileSync(join(cwd, ".gitignore"), "utf8")).toBe(after);
  });
});

describe("the build context", () => {
  it("leaves out what is ignored, installed modules and the deployment folder", async () => {
    const cwd = temporaryProject({
      ...PROJECT,
      ".deployment/state.json": "{}",
      "node_modules/x/index.js": "",
      "certs/server.key": "secret",
      "data/api-key": "secret",
      ".dockerignore": "data\n",
    });

    const { files } = await packContext(cwd, DOCKER_FILES);

    expect(files.map((file) => file.path)).toEqual([
      ".dockerignore",
      "Dockerfile",
      "package.json",
      "src/controller.ts",
    ]);
  });

  it("has the same bytes for the same files, whatever their times", async () => {
    const one = await packContext(temporaryProject(), DOCKER_FILES);
    const two = await packContext(temporaryProject(), DOCKER_FILES);
    const other = await packContext(temporaryProject({ ...PROJECT, "src/controller.ts": "2" }), DOCKER_FILES);

    expect(two.hash).toBe(one.hash);
    expect((await two.tarGz()).equals(await one.tarGz())).toBe(true);
    expect(other.hash).not.toBe(one.hash);
  });

  it("takes credentials out of an .npmrc", async () => {
    const npmrc =
      "registry=https://npm.example/\n//npm.example/:_authToken=planted\nemail=a@b.c\n_password=planted\n";
    const { files } = await packContext(temporaryProject({ ...PROJECT, ".npmrc": npmrc }), DOCKER_FILES);

    const text = Buffer.from(files.find((file) => file.path === ".npmrc")?.content ?? []).toString();

    expect(text).toBe("registry=https://npm.example/\nemail=a@b.c\n");
  });

  it("is read by tar: long names, links, modes", async () => {
    const long = `${"folder-with-a-long-name/".repeat(6)}file-ü.txt`;
    const cwd = temporaryProject({});
    const archive = toTar([
      { path: long, content: Buffer.from("long") },
      { path: "run.sh", content: Buffer.from("#!/bin/sh\n"), executable: true },
      { path: "link", content: Buffer.alloc(0), link: "run.sh" },
    ]);

    const result = await run("tar", ["xf", "-", "-C", cwd], { input: archive, env: process.env });

    expect(result).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(join(cwd, long), "utf8")).toBe("long");
    expect((await run(join(cwd, "link"), [], { env: process.env })).code).toBe(0);
  });

  it("carries symbolic links as such", async () => {
    const cwd = temporaryProject();
    symlinkSync("src/controller.ts", join(cwd, "main.ts"));

    const { files } = await packContext(cwd, DOCKER_FILES);

    expect(files.find((file) => file.path === "main.ts")?.link).toBe("src/controller.ts");
  });
});

describe("ignore rules", () => {
  it.each([
    ["data", "data/x", true],
    ["data", "src/data", false],
    ["**/data", "src/data/y", true],
    ["*.log", "a.log", true],
    ["*.log", "logs/a.log", false],
    ["**/*.log", "logs/a.log", true],
    ["/data/", "data/x", true],
    [".env*\n!.env.example", ".env.example", false],
    [".env*\n!.env.example", ".env.local", true],
    ["src/?.ts", "src/a.ts", true],
    ["# data", "data", false],
    ["a.b", "axb", false],
  ])("%j and %j", (rules, path, ignored) => {
    expect(parseIgnore(rules)(path)).toBe(ignored);
  });
});

describe("the image tag", () => {
  const contentHash = "0123456789abcdef0123";

  async function git(cwd: string, ...args: string[]): Promise<void> {
    const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null" };
    const identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    const { code, stderr } = await run("git", ["-C", cwd, ...identity, ...args], { env });
    if (code !== 0) throw new Error(stderr);
  }

  it("is the commit, marked where the tree differs from it", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd });
    await git(cwd, "init", "-q");
    await git(cwd, "add", ".");
    await git(cwd, "commit", "-qm", "one");

    const clean = await resolveImageTag(tools, { typed: undefined, cwd, contentHash });
    writeAll(cwd, { "src/new.ts": "" });
    const dirty = await resolveImageTag(tools, { typed: undefined, cwd, contentHash });

    expect(clean).toMatch(/^[0-9a-f]{12}$/);
    expect(dirty).toBe(`${clean}-dirty-01234567`);
  });

  it("is the content without git, and what was typed before all", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd });

    expect(await resolveImageTag(tools, { typed: undefined, cwd, contentHash })).toBe("content-0123456789ab");
    expect(await resolveImageTag(tools, { typed: "1.10", cwd, contentHash })).toBe("1.10");
    await expect(resolveImageTag(tools, { typed: "a b", cwd, contentHash })).rejects.toMatchObject({
      exitCode: 2,
    });
  });
});

describe("the Dockerfile", () => {
  async function dockerfile(files: Record<string, string>, manifest: object = {}): Promise<string> {
    const cwd = temporaryProject({ ...PROJECT, ...files, "package.json": JSON.stringify(manifest) });
    const rendered = await renderTemplates({
      project: await readProject(cwd),
      name: "hello",
      serviceName: "hello-dev",
      port: 8000,
      localImage: "hello-dev:local-test",
      imageTag: "t",
      env: { PRICE: "5 $" },
      secretNames: ["SERVICE_API_KEY"],
    });
    return `${rendered.Dockerfile}\n${rendered["docker-compose.yml"]}`;
  }

  it("installs from the lock file with npm, pnpm and yarn", async () => {
    expect(await dockerfile({ "package-lock.json": "{}" })).toContain("RUN npm ci --omit=dev");
    expect(await dockerfile({ "pnpm-lock.yaml": "" }, { packageManager: "pnpm@10.4.1+sha512.abc" })).toMatch(
      /npm install --global .* pnpm@10\.4\.1\n[\s\S]*RUN pnpm install --prod --frozen-lockfile/,
    );
    expect(await dockerfile({ "yarn.lock": "" })).toContain(
      "RUN yarn install --production --frozen-lockfile",
    );
    expect(await dockerfile({ "yarn.lock": "", ".yarnrc.yml": "" })).toContain(
      "yarn workspaces focus --production",
    );
  });

  it("copies what file: dependencies need, and keeps it out of the image", async () => {
    const text = await dockerfile(
      { "x-1.0.0.tgz": "", "packages/y/package.json": "{}", "package-lock.json": "{}" },
      { dependencies: { x: "file:./x-1.0.0.tgz", y: "file:packages/y" } },
    );

    expect(text).toContain("COPY package.json package-lock.json x-1.0.0.tgz ./");
    expect(text).toContain("COPY packages/y ./packages/y");
    expect(text).toMatch(/rm -rf .* x-1\.0\.0\.tgz/);
  });

  it("runs as nobody special, checks its own health without curl, and holds no secret", async () => {
    const text = await dockerfile({ "package-lock.json": "{}" });

    expect(text).toContain("USER node");
    expect(text).toMatch(/HEALTHCHECK .* \["node", "-e"/);
    expect(text).toContain('PRICE: "5 $$"');
    expect(text).toMatch(/SERVICE_API_KEY:\n/);
  });

  it("a dependency outside of the project is refused before anything is built", async () => {
    const cwd = temporaryProject({ ...PROJECT, "package.json": '{"dependencies": {"z": "file:../z"}}' });
    mkdirSync(join(cwd, "src"), { recursive: true });

    await expect(readProject(cwd)).rejects.toThrow(/lies outside of the project/);
  });

  it("a missing controller is named, with what to do", async () => {
    const cwd = temporaryProject({ "package.json": "{}" });

    await expect(readProject(cwd)).rejects.toMatchObject({
      exitCode: 2,
      fix: expect.stringMatching(/--source-dir/),
    });
  });
});
