import { readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { describe, expect, it } from "vitest";
import { packageOf, readSources, type SourceFile, type SourceImport } from "./_sources.ts";

const sources = readSources("src");
const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as Record<
  "dependencies" | "peerDependencies" | "devDependencies",
  Record<string, string> | undefined
>;

type Layer = "entry" | "plugins" | "core";

function layerOf(path: string): Layer {
  // Finds the package's folders, so it has to lie one level under the root; it imports nothing.
  if (path.startsWith("src/core/") || path === "src/paths.ts") return "core";
  return path.startsWith("src/plugins/") ? "plugins" : "entry";
}

/** `src/plugins/admin/pages/jobs.ts` belongs to `admin`. */
function pluginOf(path: string): string | undefined {
  return /^src\/plugins\/([^/]+)/.exec(path)?.[1];
}

/** Arrows that a rule forbids, as text that names both ends. */
function arrows(forbidden: (file: SourceFile, one: SourceImport) => boolean): string[] {
  return sources.flatMap((file) =>
    file.imports.filter((one) => forbidden(file, one)).map((one) => `${file.path} → ${one.target}`),
  );
}

describe("the sources", () => {
  it("are found, with their imports", () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(sources.find(({ path }) => path === "src/server.ts")?.imports.length).toBeGreaterThan(0);
  });

  it("import downwards only: entry files → plugins → core", () => {
    const rank: Record<Layer, number> = { entry: 2, plugins: 1, core: 0 };

    const upward = arrows(
      ({ path }, { target }) => target.startsWith("src/") && rank[layerOf(target)] > rank[layerOf(path)],
    );

    expect(upward).toEqual([]);
  });

  it("keep plugins apart from each other", () => {
    const across = arrows(({ path }, { target }) => {
      const [from, to] = [pluginOf(path), pluginOf(target)];
      return from !== undefined && to !== undefined && from !== to;
    });

    expect(across).toEqual([]);
  });

  it("know the container's library in one file only", () => {
    const elsewhere = arrows(
      ({ path }, { specifier }) =>
        ["tsyringe", "reflect-metadata"].includes(packageOf(specifier)) && path !== "src/core/container.ts",
    );

    expect(elsewhere).toEqual([]);
  });

  it("name files in full when they import them", () => {
    const loose = arrows(
      (_file, { specifier }) => /^\.{1,2}(\/|$)/.test(specifier) && !specifier.endsWith(".ts"),
    );

    expect(loose).toEqual([]);
  });

  it("import no package that is not installed with this one", () => {
    const runtime = { ...manifest.dependencies, ...manifest.peerDependencies };
    const undeclared = arrows(({ path }, { specifier, typeOnly }) => {
      if (specifier.startsWith(".") || isBuiltin(specifier)) return false;
      const name = packageOf(specifier);
      if (name in runtime) return false;
      // The contract suites in agent-control-service/testing run in the user's vitest.
      const isSuite = path.endsWith("-contract.ts") || path.startsWith("src/core/store/contract");
      return !(name === "vitest" && isSuite) && !(typeOnly && name in (manifest.devDependencies ?? {}));
    });

    expect(undeclared).toEqual([]);
  });

  it("load optional packages when they are used, not before", () => {
    const early = arrows(
      (_file, { specifier, typeOnly, lazy }) =>
        packageOf(specifier) in (manifest.peerDependencies ?? {}) &&
        packageOf(specifier) !== "vitest" &&
        !typeOnly &&
        !lazy,
    );

    expect(early).toEqual([]);
  });

  it("export by name, but for platforms, which are loaded by theirs", () => {
    const defaults = sources
      .filter(({ path, text }) => /^export default /m.test(text) && !path.endsWith("/platform.ts"))
      .map(({ path }) => path);

    expect(defaults).toEqual([]);
  });

  it("hold no state beside their declarations but the test server's key", () => {
    const variables = sources.filter(({ text }) => /^(export )?let /m.test(text)).map(({ path }) => path);

    expect(variables).toEqual(["src/test-server.ts"]);
  });
});
