import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readProject } from "../../src/deploy/project.ts";
import { PROJECT, temporaryProject } from "./_fixture.ts";

/** A repository with a project in apps/agent, and what reading the project gives. */
async function read(
  files: Record<string, string>,
  dependencies: Record<string, string> = {},
  folder = "apps/agent",
) {
  const root = temporaryProject({
    [`${folder}/package.json`]: JSON.stringify({ name: "agent", type: "module", dependencies }),
    [`${folder}/src/controller.ts`]: PROJECT["src/controller.ts"] ?? "",
    "packages/shared/package.json": '{"name": "@x/shared", "version": "1.0.0"}',
    ...files,
  });
  return readProject(join(root, folder));
}

const NPM = {
  "package.json": '{"private": true, "workspaces": ["packages/*", "apps/*"]}',
  "package-lock.json": "{}",
};
const PNPM = {
  "package.json": '{"private": true, "packageManager": "pnpm@10.4.1"}',
  "pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n  - 'apps/**'\n",
  "pnpm-lock.yaml": "",
};
const YARN = {
  "package.json": '{"private": true, "workspaces": {"packages": ["packages/*", "./apps/*/"]}}',
  "yarn.lock": "",
};
const BUN = {
  "package.json": '{"private": true, "workspaces": ["packages/*", "apps/*"]}',
  "bun.lock": "",
};
const LOCKS = ["package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"];
/** The same without a lock file. */
const unlocked = (files: Record<string, string>) =>
  Object.fromEntries(Object.entries(files).filter(([path]) => !LOCKS.includes(path)));

describe("a project in a workspace", () => {
  it.each([
    ["npm", NPM, "*"],
    ["npm", NPM, "^1"],
    ["npm", NPM, "workspace:*"],
    ["pnpm", PNPM, "workspace:*"],
    ["pnpm", PNPM, "workspace:^1.0.0"],
    ["pnpm", PNPM, "1.0.0"],
    ["yarn", YARN, "*"],
    ["yarn", YARN, "workspace:^"],
  ])(
    "never has a package of the repository fetched from a registry (%s, %j, %s)",
    async (_manager, files, version) => {
      await expect(read(unlocked(files), { "@x/shared": version })).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining('"@x/shared"'),
        fix: expect.stringContaining("pack"),
      });
    },
  );

  it.each([
    ["npm", NPM, "package-lock.json"],
    ["pnpm", PNPM, "pnpm-lock.yaml"],
    ["yarn", YARN, "yarn.lock"],
    ["bun", BUN, "bun.lock"],
  ])("is built from the root of the workspace, by its lock file: %s", async (manager, files, lock) => {
    const project = await read(
      {
        ...files,
        "packages/shared/package.json":
          '{"name": "@x/shared", "scripts": {"build": "x"}, "dependencies": {"@x/deep": "*"}}',
        "packages/deep/package.json": '{"name": "@x/deep"}',
        "packages/other/package.json": '{"name": "@x/other", "dependencies": {"@x/shared": "*"}}',
        "packages/fixture/package.txt": "",
      },
      { "@x/shared": "*", valibot: "^1" },
    );

    expect(project).toMatchObject({
      ...{ packageManager: manager, lockFile: lock, folder: "apps/agent", hasBuild: true },
      unused: ["packages/other"],
      controller: "src/controller.ts",
    });
    expect(project.workspace?.used.map(({ folder }) => folder)).toEqual([
      "packages/deep",
      "packages/shared",
      "apps/agent",
    ]);
    expect(project.workspace?.members).toEqual([
      "apps/agent",
      "packages/deep",
      "packages/other",
      "packages/shared",
    ]);
  });

  it("is not built by another package manager than the one that wrote the lock file", async () => {
    const files = { ...PNPM, "package.json": '{"packageManager": "npm@11.0.0"}' };

    await expect(read(files, { "@x/shared": "*" })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/has no lock file of npm$/),
      detail: expect.stringContaining("pnpm-lock.yaml"),
    });
  });

  it("packages that need each other are built once each", async () => {
    const { workspace } = await read(
      {
        ...NPM,
        "packages/shared/package.json": '{"name": "@x/shared", "dependencies": {"@x/deep": "*"}}',
        "packages/deep/package.json": '{"name": "@x/deep", "dependencies": {"@x/shared": "*"}}',
      },
      { "@x/shared": "*" },
    );

    expect(workspace?.used.map(({ folder }) => folder)).toEqual([
      "packages/deep",
      "packages/shared",
      "apps/agent",
    ]);
  });

  it("a package of the workspace that is not JSON ends the deployment", async () => {
    await expect(read({ ...NPM, "packages/shared/package.json": "{" }, {})).rejects.toThrow(/is not JSON/);
  });

  it("is built with its own lock file, and with packed packages", async () => {
    const own = { "apps/agent/package-lock.json": "{}", "apps/agent/shared.tgz": "" };

    expect((await read({ ...NPM, ...own }, { "@x/shared": "file:shared.tgz" })).lockFile).toBe(
      "package-lock.json",
    );
    await expect(read({ ...NPM, ...own }, { "@x/shared": "workspace:*" })).rejects.toMatchObject({
      exitCode: 2,
    });
  });

  it("that is not one of its packages needs no lock file, but may not have a package's name either", async () => {
    const excluded = { ...NPM, "package.json": '{"workspaces": ["packages/*"]}' };
    const negated = { ...NPM, "package.json": '{"workspaces": ["packages/*", "apps/*", "!apps/agent"]}' };

    expect((await read(excluded, { valibot: "^1" })).lockFile).toBeUndefined();
    expect((await read(negated, { valibot: "^1" })).lockFile).toBeUndefined();
    await expect(read(excluded, { "@x/shared": "^1" })).rejects.toMatchObject({ exitCode: 2 });
  });

  it.each([
    ["npm without a lock file", NPM],
    ["pnpm", PNPM],
    ["yarn", YARN],
  ])("at its root may not have a package's name from elsewhere: %s", async (_what, files) => {
    const { "package-lock.json": _lock, ...rest } = files as Record<string, string>;
    const manifest = { ...JSON.parse(files["package.json"]), dependencies: { "@x/shared": "*" } };
    const root = { ...PROJECT, ...rest, "package.json": JSON.stringify(manifest) };

    await expect(
      readProject(temporaryProject({ ...root, "packages/shared/package.json": '{"name": "@x/shared"}' })),
    ).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining("@x/shared") });
  });

  it("at its root is built by npm's lock file, if all modules are at the root", async () => {
    const manifest = { workspaces: ["packages/*"], dependencies: { "@x/shared": "*" } };
    const files = (packages: object) => ({
      ...PROJECT,
      "package.json": JSON.stringify(manifest),
      "package-lock.json": JSON.stringify({ packages }),
      "packages/shared/package.json": '{"name": "@x/shared"}',
    });
    const linked = {
      "node_modules/@x/shared": { resolved: "packages/shared", link: true },
      "packages/shared": {},
    };
    const nested = { ...linked, "packages/shared/node_modules/valibot": {} };

    expect((await readProject(temporaryProject(files(linked)))).lockFile).toBe("package-lock.json");
    await expect(readProject(temporaryProject(files(nested)))).rejects.toThrow(
      /packages\/shared\/node_modules\/valibot/,
    );
  });

  it("is searched only up to the root of the repository", async () => {
    const root = temporaryProject({
      ...NPM,
      "apps/agent/package.json": '{"dependencies": {"@x/shared": "*"}}',
      "apps/agent/src/controller.ts": "",
      "packages/shared/package.json": '{"name": "@x/shared"}',
    });
    mkdirSync(join(root, "apps/agent/.git"));

    expect((await readProject(join(root, "apps/agent"))).lockFile).toBeUndefined();
  });

  it("workspace: outside of a workspace is refused before a build", async () => {
    const cwd = temporaryProject({ ...PROJECT, "package.json": '{"dependencies": {"z": "workspace:*"}}' });

    await expect(readProject(cwd)).rejects.toThrow(/"z" \(workspace:\*\) is a package of a workspace/);
  });

  it("an unreadable manifest of the workspace ends the deployment", async () => {
    await expect(read({ ...NPM, "package.json": "{" })).rejects.toThrow(/workspace in .* cannot be read/);
  });
});
