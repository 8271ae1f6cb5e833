import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryProject } from "./_fixture.ts";

const SCRIPT = new URL("../../src/templates/deploy/prune.cjs", import.meta.url).pathname;

/** The files of packages, by folder and manifest. */
function packages(manifests: Record<string, object>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(manifests).map(([folder, manifest]) => [
      join(folder, "package.json"),
      JSON.stringify(manifest),
    ]),
  );
}

/** Runs the script as the image does; which of these paths are left. */
function leftIn(cwd: string, paths: readonly string[], members: readonly string[] = []): string[] {
  execFileSync(process.execPath, ["-e", readFileSync(SCRIPT, "utf8"), ...members], { cwd });
  return paths.filter((path) => existsSync(join(cwd, path)));
}

describe("the packages of an image", () => {
  it("are those that a production dependency needs, with the peers that it requires", () => {
    const kept = {
      "node_modules/agent": {
        dependencies: { "@x/used": "1" },
        peerDependencies: { schema: "1", cloud: "1" },
        peerDependenciesMeta: { cloud: { optional: true } },
      },
      "node_modules/@x/used": { optionalDependencies: { native: "1", absent: "1" } },
      "node_modules/native": {},
      "node_modules/schema": { dependencies: { nested: "2" } },
      "node_modules/schema/node_modules/nested": {},
      "node_modules/outer/node_modules/alone": {},
      "node_modules/local-peer": {},
    };
    const dropped = {
      "node_modules/cloud": { dependencies: { "@y/deep": "1" } },
      "node_modules/@y/deep": {},
      "node_modules/nested": {},
    };
    const cwd = temporaryProject({
      ...packages({
        ".": {
          dependencies: { agent: "1", outer: "1" },
          devDependencies: { cloud: "1" },
          peerDependencies: { "local-peer": "1" },
        },
        "node_modules/outer": { dependencies: { alone: "1" } },
        ...kept,
        ...dropped,
      }),
      "node_modules/agent/index.js": "",
      "node_modules/agent/index.js.map": "{}",
      "node_modules/agent/dist/node_modules/vendored/index.js": "",
    });
    mkdirSync(join(cwd, "node_modules/.bin"));
    symlinkSync("../cloud/package.json", join(cwd, "node_modules/.bin/cloud"));
    symlinkSync("../agent/index.js", join(cwd, "node_modules/.bin/agent"));

    const inAgent = ["index.js", "dist/node_modules/vendored/index.js"].map((file) =>
      join("node_modules/agent", file),
    );
    const all = [...Object.keys(kept), ...Object.keys(dropped), ...inAgent, "node_modules/@y"];
    const left = leftIn(cwd, [...all, "node_modules/agent/index.js.map", "node_modules/.bin/agent"]);

    expect(left).toEqual([...Object.keys(kept), ...inAgent, "node_modules/.bin/agent"]);
    expect(() => execFileSync("readlink", [join(cwd, "node_modules/.bin/cloud")])).toThrow();
  });

  it("are found behind the links of pnpm", () => {
    const agent = "node_modules/.pnpm/agent@1_cloud@1/node_modules/agent";
    const used = "node_modules/.pnpm/used@1/node_modules/used";
    const cloud = "node_modules/.pnpm/cloud@1/node_modules/cloud";
    const cwd = temporaryProject(
      packages({
        ".": { dependencies: { agent: "1" }, devDependencies: { cloud: "1" } },
        [agent]: {
          dependencies: { used: "1" },
          peerDependencies: { cloud: "1" },
          peerDependenciesMeta: { cloud: { optional: true } },
        },
        [used]: {},
        [cloud]: {},
      }),
    );
    symlinkSync(join(cwd, agent), join(cwd, "node_modules/agent"));
    for (const one of [used, cloud])
      symlinkSync(join(cwd, one), join(cwd, dirname(agent), one.split("/").at(-1) ?? ""));

    expect(leftIn(cwd, [agent, used, cloud, "node_modules/agent"])).toEqual([
      agent,
      used,
      "node_modules/agent",
    ]);
  });

  it("stay as they are at the root of a workspace, whose own packages are not in the image", () => {
    const cwd = temporaryProject(
      packages({ ".": { workspaces: ["packages/*"] }, "node_modules/of-a-package": {} }),
    );

    expect(leftIn(cwd, ["node_modules/of-a-package"])).toEqual(["node_modules/of-a-package"]);
  });

  it("of a workspace are those that the root, the project and the packages that it uses need", () => {
    const kept = {
      "node_modules/of-root": {},
      "node_modules/of-agent": {},
      "node_modules/of-greet": {},
      "packages/greet/node_modules/nested": {},
    };
    const dropped = { "node_modules/of-unused": {}, "packages/greet/node_modules/alone": {} };
    const cwd = temporaryProject(
      packages({
        ".": { workspaces: ["packages/*", "apps/*"], dependencies: { "of-root": "1" } },
        "apps/agent": { name: "agent", dependencies: { "of-agent": "1", "@x/greet": "*" } },
        "packages/greet": { name: "@x/greet", dependencies: { "of-greet": "1", nested: "1" } },
        "packages/unused": { name: "@x/unused", dependencies: { "of-unused": "1" } },
        ...kept,
        ...dropped,
      }),
    );
    mkdirSync(join(cwd, "node_modules/@x"));
    for (const name of ["greet", "unused"])
      symlinkSync(`../../packages/${name}`, join(cwd, `node_modules/@x/${name}`));
    const paths = [...Object.keys(kept), ...Object.keys(dropped), "packages/greet/package.json"];

    expect(leftIn(cwd, paths, ["packages/greet", "apps/agent"])).toEqual([
      ...Object.keys(kept),
      "packages/greet/package.json",
    ]);
  });
});

describe("the bill of materials of an image", () => {
  const billOf = (cwd: string) =>
    JSON.parse(readFileSync(join(cwd, "node_modules/sbom.cdx.json"), "utf8")) as {
      metadata: { component: object };
      components: { purl: string; name: string; licenses?: object[] }[];
    };

  it("lists each package that is left, in each of its versions, and Node", () => {
    const cwd = temporaryProject(
      packages({
        ".": {
          name: "desk",
          version: "3.0.0",
          dependencies: { agent: "1", "@x/tool": "1" },
          devDependencies: { dev: "1" },
        },
        "node_modules/agent": {
          name: "agent",
          version: "1.0.0",
          license: "MIT",
          dependencies: { deep: "2" },
        },
        "node_modules/agent/node_modules/deep": { name: "deep", version: "2.0.0+build" },
        "node_modules/deep": { name: "deep", version: "1.0.0" },
        "node_modules/@x/tool": { name: "@x/tool", version: "1.2.3", dependencies: { deep: "1" } },
        "node_modules/@x/tool/esm": { type: "module" },
        "node_modules/dev": { name: "dev", version: "9.9.9" },
      }),
    );

    leftIn(cwd, []);
    const bill = billOf(cwd);
    const first = readFileSync(join(cwd, "node_modules/sbom.cdx.json"), "utf8");
    leftIn(cwd, []);

    expect(bill).toMatchObject({
      bomFormat: "CycloneDX",
      specVersion: "1.6",
      metadata: { component: { name: "desk", version: "3.0.0" } },
    });
    expect(bill.components.map(({ purl }) => purl)).toEqual([
      `pkg:generic/node@${process.versions.node}`,
      "pkg:npm/%40x/tool@1.2.3",
      "pkg:npm/agent@1.0.0",
      "pkg:npm/deep@1.0.0",
      "pkg:npm/deep@2.0.0%2Bbuild",
    ]);
    expect(bill.components[1]).toMatchObject({ group: "@x", name: "tool" });
    expect(bill.components[2]?.licenses).toEqual([{ license: { name: "MIT" } }]);
    expect(readFileSync(join(cwd, "node_modules/sbom.cdx.json"), "utf8")).toBe(first);
  });

  it.each([".pnpm", ".bun"])(
    "lists packages behind the links of %s, and the members of a workspace",
    (store) => {
      const agent = `node_modules/${store}/agent@1.0.0/node_modules/agent`;
      const unused = `node_modules/${store}/unused@1.0.0/node_modules/unused`;
      const cwd = temporaryProject(
        packages({
          ".": { name: "root", version: "1.0.0", workspaces: ["packages/*"] },
          "packages/desk": { name: "@x/desk", version: "0.1.0", dependencies: { agent: "1" } },
          [agent]: { name: "agent", version: "1.0.0" },
          [unused]: { name: "unused", version: "1.0.0" },
        }),
      );
      mkdirSync(join(cwd, "packages/desk/node_modules"));
      symlinkSync(join("../../..", agent), join(cwd, "packages/desk/node_modules/agent"));

      leftIn(cwd, [], ["packages/desk"]);

      expect(billOf(cwd).metadata.component).toMatchObject({ name: "@x/desk", version: "0.1.0" });
      expect(billOf(cwd).components.map(({ name }) => name)).toEqual(["node", "desk", "agent"]);
      expect(existsSync(join(cwd, unused))).toBe(false);
    },
  );
});
