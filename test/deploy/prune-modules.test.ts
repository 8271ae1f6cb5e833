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
  it("are without what only the framework names, as an optional peer, and nobody else needs or can use", () => {
    const kept = {
      "node_modules/agent-control-service": {
        dependencies: { "@x/used": "1" },
        peerDependencies: { schema: "1", cloud: "1", driver: "1" },
        peerDependenciesMeta: { cloud: { optional: true }, driver: { optional: true } },
      },
      "node_modules/@x/used": { optionalDependencies: { native: "1", absent: "1" } },
      "node_modules/native": {},
      "node_modules/schema": {
        dependencies: { nested: "2" },
        peerDependencies: { compiler: "1" },
        peerDependenciesMeta: { compiler: { optional: true } },
      },
      "node_modules/schema/node_modules/nested": {},
      "node_modules/outer/node_modules/alone": {},
      "node_modules/local-peer": {},
      // Nothing is known of who uses it.
      "node_modules/nested": {},
      // The framework can use it, too, and only development asks for it by name.
      "node_modules/driver": { dependencies: { shared: "1" } },
      "node_modules/shared": {},
    };
    const dropped = {
      "node_modules/cloud": { dependencies: { "@y/deep": "1", shared: "1" } },
      "node_modules/@y/deep": {},
      "node_modules/compiler": { optionalDependencies: { "@y/native": "1" } },
      "node_modules/@y/native": {},
    };
    const cwd = temporaryProject({
      ...packages({
        ".": {
          dependencies: { "agent-control-service": "1", outer: "1" },
          devDependencies: { cloud: "1", compiler: "1", driver: "1" },
          peerDependencies: { "local-peer": "1" },
        },
        "node_modules/outer": {
          dependencies: { alone: "1" },
          peerDependencies: { driver: "1" },
          peerDependenciesMeta: { driver: { optional: true } },
        },
        ...kept,
        ...dropped,
      }),
      "node_modules/agent-control-service/index.js": "",
      "node_modules/agent-control-service/index.js.map": "{}",
      "node_modules/agent-control-service/dist/node_modules/vendored/index.js": "",
      // What a package makes when it is installed is no package, and a map may be one of the world.
      "node_modules/generated/client.js": "",
      "node_modules/outer/world.map": "{}",
    });
    mkdirSync(join(cwd, "node_modules/.bin"));
    symlinkSync("../cloud/package.json", join(cwd, "node_modules/.bin/cloud"));
    symlinkSync("../agent-control-service/index.js", join(cwd, "node_modules/.bin/agent"));

    const files = [
      "node_modules/agent-control-service/index.js",
      "node_modules/agent-control-service/dist/node_modules/vendored/index.js",
      "node_modules/generated/client.js",
      "node_modules/outer/world.map",
      "node_modules/.bin/agent",
    ];
    const gone = [
      ...Object.keys(dropped),
      "node_modules/@y",
      "node_modules/agent-control-service/index.js.map",
    ];
    const left = leftIn(cwd, [...Object.keys(kept), ...gone, ...files]);

    expect(left).toEqual([...Object.keys(kept), ...files]);
    expect(() => execFileSync("readlink", [join(cwd, "node_modules/.bin/cloud")])).toThrow();
  });

  it("are found behind the links of pnpm", () => {
    const agent = "node_modules/.pnpm/agent-control-service@1_cloud@1/node_modules/agent-control-service";
    const used = "node_modules/.pnpm/used@1/node_modules/used";
    const cloud = "node_modules/.pnpm/cloud@1/node_modules/cloud";
    const cwd = temporaryProject(
      packages({
        ".": { dependencies: { "agent-control-service": "1" }, devDependencies: { cloud: "1" } },
        [agent]: {
          dependencies: { used: "1" },
          peerDependencies: { cloud: "1" },
          peerDependenciesMeta: { cloud: { optional: true } },
        },
        [used]: {},
        [cloud]: {},
      }),
    );
    symlinkSync(join(cwd, agent), join(cwd, "node_modules/agent-control-service"));
    for (const one of [used, cloud])
      symlinkSync(join(cwd, one), join(cwd, dirname(agent), one.split("/").at(-1) ?? ""));

    const link = "node_modules/agent-control-service";
    expect(leftIn(cwd, [agent, used, cloud, link])).toEqual([agent, used, link]);
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
    const dropped = { "node_modules/of-unused": {} };
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
      const cwd = temporaryProject(
        packages({
          ".": { name: "root", version: "1.0.0", workspaces: ["packages/*"] },
          "packages/desk": { name: "@x/desk", version: "0.1.0", dependencies: { agent: "1" } },
          [agent]: { name: "agent", version: "1.0.0" },
        }),
      );
      mkdirSync(join(cwd, "packages/desk/node_modules"));
      symlinkSync(join("../../..", agent), join(cwd, "packages/desk/node_modules/agent"));

      leftIn(cwd, [], ["packages/desk"]);

      expect(billOf(cwd).metadata.component).toMatchObject({ name: "@x/desk", version: "0.1.0" });
      expect(billOf(cwd).components.map(({ name }) => name)).toEqual(["node", "desk", "agent"]);
    },
  );
});
