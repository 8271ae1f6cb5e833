import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createDeployTools } from "../../src/deploy/create-tools.ts";
import { run } from "../../src/deploy/exec.ts";
import { ignoreFolder, writeFiles } from "../../src/deploy/files.ts";
import { originLabels, resolveImageTag } from "../../src/deploy/image-tag.ts";
import { openLocal } from "../../src/deploy/local/local-run.ts";
import { localUp } from "../../src/deploy/local/local-up.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { readProject } from "../../src/deploy/project.ts";
import { renderTemplates } from "../../src/deploy/templates.ts";
import { PROJECT, temporaryProject, writeAll } from "./_fixture.ts";

describe("generated files", () => {
  it("are regenerated when they change, until the user edits them", async () => {
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

  it.each([
    ["", ".deployment/\n", true],
    ["node_modules", "node_modules\n.deployment/\n", true],
    ["/.deployment\n", "/.deployment\n", false],
    [".deployment/\n", ".deployment/\n", false],
  ])("the folder is added to the ignore file once: %j", async (before, after, changed) => {
    const cwd = temporaryProject({ ".gitignore": before });

    expect(await ignoreFolder(cwd)).toBe(changed);
    await ignoreFolder(cwd);

    expect(readFileSync(join(cwd, ".gitignore"), "utf8")).toBe(after);
  });
});

describe("symbolic links in place of our files", () => {
  it.each([".deployment", ".deployment/Dockerfile", ".deployment/logs", ".deployment/state"])(
    "%s is refused, and nothing is written through it",
    async (entry) => {
      const cwd = temporaryProject({ ...PROJECT, "elsewhere/keep": "" });
      if (entry !== ".deployment") mkdirSync(join(cwd, ".deployment"));
      symlinkSync(join(cwd, "elsewhere"), join(cwd, entry));
      const options = { ...DEFAULT_OPTIONS, env: "dev", filesOnly: true, name: "x" } as never;
      const run = openLocal({ options, cwd, env: process.env, emit: () => undefined }).then(localUp);

      await expect(run).rejects.toMatchObject({ exitCode: 5, message: `${entry} is a symbolic link` });
      expect(readdirSync(join(cwd, "elsewhere"))).toEqual(["keep"]);
    },
  );

  it("a .gitignore that is a link is left unchanged, and its text is not copied", async () => {
    const cwd = temporaryProject({ private: "words of mine\n" });
    symlinkSync("private", join(cwd, ".gitignore"));

    await expect(ignoreFolder(cwd)).rejects.toMatchObject({ fix: expect.stringContaining(".deployment/") });
    expect(lstatSync(join(cwd, ".gitignore")).isSymbolicLink()).toBe(true);
    writeFileSync(join(cwd, "private"), ".deployment/\n");
    expect(await ignoreFolder(cwd)).toBe(false);
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

  it("is the commit, with a mark if the tree differs from it", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd, env: process.env });
    await git(cwd, "init", "-q");
    await git(cwd, "add", ".");
    await git(cwd, "commit", "-qm", "one");

    const clean = await resolveImageTag(tools, { typed: undefined, cwd, contentHash });
    writeAll(cwd, { "src/new.ts": "" });
    const dirty = await resolveImageTag(tools, { typed: undefined, cwd, contentHash });

    expect(clean).toMatch(/^[0-9a-f]{12}$/);
    expect(dirty).toBe(`${clean}-dirty-01234567`);
  });

  it("is the commit alone beside the login files that a pipeline's steps write", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd, env: process.env });
    await git(cwd, "init", "-q");
    await git(cwd, "add", ".");
    await git(cwd, "commit", "-qm", "one");
    writeAll(cwd, { "gha-creds-0123456789abcdef.json": "{}", "src/gha-creds-1.json": "{}" });

    expect(await resolveImageTag(tools, { typed: undefined, cwd, contentHash })).toMatch(/^[0-9a-f]{12}$/);
  });

  it("and the labels name remote and commit, without a login, and no commit that the tree differs from", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd, env: process.env });
    const without = await originLabels(tools, cwd);
    await git(cwd, "init", "-q");
    await git(cwd, "remote", "add", "origin", "https://me:planted-token@git.example.com/team/desk.git");
    await git(cwd, "add", ".");
    await git(cwd, "commit", "-qm", "one");

    const clean = await originLabels(tools, cwd);
    writeAll(cwd, { "src/new.ts": "" });
    const dirty = await originLabels(tools, cwd);

    const source = { "org.opencontainers.image.source": "https://git.example.com/team/desk" };
    expect(without).toEqual({});
    expect(clean).toEqual({
      ...source,
      "org.opencontainers.image.revision": expect.stringMatching(/^[0-9a-f]{40}$/),
    });
    expect(dirty).toEqual(source);
  });

  it("is the content without git, and a typed tag overrides both", async () => {
    const cwd = temporaryProject();
    const tools = createDeployTools({ cwd, env: process.env });

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

  it("installs from the lock file with npm, pnpm, yarn and bun", async () => {
    expect(await dockerfile({ "package-lock.json": "{}" })).toContain("RUN npm ci --omit=dev");
    expect(await dockerfile({ "pnpm-lock.yaml": "" }, { packageManager: "pnpm@10.4.1+sha512.abc" })).toMatch(
      /npm install --global .* pnpm@10\.4\.1\n[\s\S]*RUN pnpm install --prod --frozen-lockfile/,
    );
    expect(await dockerfile({ "yarn.lock": "" })).toContain(
      "RUN yarn install --production --frozen-lockfile",
    );
    expect(await dockerfile({ "bun.lock": "" }, { packageManager: "bun@1.4.5" })).toMatch(
      /npm install --global .* bun@1\.4\.5\n[\s\S]*RUN bun install --production --frozen-lockfile\n/,
    );
    expect(await dockerfile({ "yarn.lock": "", ".yarnrc.yml": "" })).toContain(
      "yarn workspaces focus --production",
    );
  });

  it.each([
    "pnpm@10 && curl https://evil.example",
    "pnpm@10\nRUN id",
    "npm@11 --registry=https://evil.example",
    "yarn@https://evil.example/yarn.tgz",
    "pnpm@10.4.1+sha512.a b",
    "deno@2.0.0",
    "pnpm",
  ])("a packageManager such as %j is never copied into it", async (packageManager) => {
    await expect(dockerfile({ "pnpm-lock.yaml": "" }, { packageManager })).rejects.toMatchObject({
      exitCode: 2,
      detail: expect.stringContaining("exact version"),
    });
  });

  it("mounts settings with a login only for the installation", async () => {
    const files = {
      "package-lock.json": "{}",
      ".npmrc": "_authToken=x\n",
      ".yarnrc.yml": "npmAuthToken: x\n",
    };

    const text = await dockerfile(files);

    expect(text).toContain(
      "RUN --mount=type=secret,id=npmrc,target=/app/.npmrc --mount=type=secret,id=yarnrc-yml,target=/app/.yarnrc.yml npm ci",
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

  it("runs as an unprivileged user, checks its own health without curl, and has no secret", async () => {
    const text = await dockerfile({ "package-lock.json": "{}" });

    expect(text).toContain("USER node");
    expect(text).toMatch(/HEALTHCHECK .* \["node", "-e"/);
    expect(text).toContain('PRICE: "5 $$"');
    expect(text).toMatch(/SERVICE_API_KEY:\n/);
  });

  it("a dependency outside of the project is refused before anything is built", async () => {
    const cwd = temporaryProject({ ...PROJECT, "package.json": '{"dependencies": {"z": "file:../z"}}' });
    mkdirSync(join(cwd, "src"), { recursive: true });

    await expect(readProject(cwd)).rejects.toThrow(/is outside the project/);
  });

  it("a missing controller is reported, with what to do", async () => {
    const cwd = temporaryProject({ "package.json": "{}" });

    await expect(readProject(cwd)).rejects.toMatchObject({
      exitCode: 2,
      fix: expect.stringMatching(/--source-dir/),
    });
  });
});

describe("the Node version of the image", () => {
  it.each([
    [undefined, {}, "22"],
    [">=20.19", {}, "22"],
    [">=24", {}, "24"],
    ["^20.19.0", {}, "20"],
    ["*", { ".nvmrc": "v24.1.0\n" }, "24"],
  ])("is one that engines.node allows (%s, %j)", async (node, files, version) => {
    const cwd = temporaryProject({ ...PROJECT, ...files });
    const path = join(cwd, "package.json");
    const manifest = JSON.parse(readFileSync(path, "utf8"));
    writeFileSync(path, JSON.stringify({ ...manifest, ...(node ? { engines: { node } } : {}) }));

    expect((await readProject(cwd)).nodeVersion).toBe(version);
  });

  it("is refused if no image has it", async () => {
    const cwd = temporaryProject({ ...PROJECT });
    const path = join(cwd, "package.json");
    const manifest = JSON.parse(readFileSync(path, "utf8"));
    writeFileSync(path, JSON.stringify({ ...manifest, engines: { node: ">=99" } }));

    await expect(readProject(cwd)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("engines.node"),
    });
  });
});
