import { readdirSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { describe, expect, it } from "vitest";
import config from "../rolldown.config.ts";
import { packageOf, readSources, type SourceFile, type SourceImport } from "./_sources.ts";

const sources = readSources("src");
const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as Record<
  "dependencies" | "peerDependencies" | "devDependencies",
  Record<string, string> | undefined
> & { peerDependenciesMeta: Record<string, { optional?: boolean }> };

/**
 * Folders of the sources, from the ground up: each imports from those before it only, types included. CONTRIBUTING.md
 * has a sentence for each.
 */
const FOLDERS = [
  "src/core/models",
  "src/core/base",
  "src/core/storage",
  "src/core/store",
  "src/core/entities",
  "src/core/audit",
  "src/core/agents",
  "src/core/access",
  "src/ai",
  "src/core/runs",
  "src/core/retention",
  "src/core/delivery",
  "src/core/conversations",
  "src/core/http",
  "src/client",
  "src/deploy",
  "src/core/service",
  "src/plugins/platforms/cloud",
  "src/plugins/platforms/aws",
  "src/plugins/platforms",
  "src/plugins",
  "src/cli",
  "src/testing",
] as const;

/** The place of a file among the folders; files at the top of `src` are what people import and run, above all others. */
function rankOf(path: string): number {
  if (/^src\/[^/]+\.ts$/.test(path)) return FOLDERS.length;
  return FOLDERS.findIndex((folder) => path.startsWith(`${folder}/`));
}

/** `src/plugins/admin/pages/jobs.ts` belongs to `src/plugins/admin`. */
function memberOf(path: string): string | undefined {
  return /^src\/plugins\/(?:platforms\/)?[^/]+/.exec(path)?.[0];
}

/** What the clouds have in common, and what those of one provider have. */
const SHARED_BY_PLATFORMS = ["src/plugins/platforms/cloud", "src/plugins/platforms/aws"];

/** Arrows that a rule forbids, as text that names both ends. */
function arrows(forbidden: (file: SourceFile, one: SourceImport) => boolean): string[] {
  return sources.flatMap((file) =>
    file.imports.filter((one) => forbidden(file, one)).map((one) => `${file.path} → ${one.target}`),
  );
}

/** Imports between files that import each other, directly or by way of others, types included. */
function cyclesOf(files: readonly SourceFile[]): string[] {
  const left = new Map(files.map(({ path, imports }) => [path, imports.map(({ target }) => target)]));
  // A file that imports none of those left, or that none of them imports, is in no cycle.
  for (let size = -1; size !== left.size; ) {
    size = left.size;
    const imported = new Set([...left.values()].flat());
    for (const [path, targets] of left) {
      if (!imported.has(path) || !targets.some((one) => left.has(one))) left.delete(path);
    }
  }
  return [...left].flatMap(([path, targets]) =>
    targets.filter((one) => left.has(one)).map((one) => `${path} → ${one}`),
  );
}

describe("the sources", () => {
  it("are found, with their imports", () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(sources.find(({ path }) => path === "src/server.ts")?.imports.length).toBeGreaterThan(0);
  });

  it("are in known folders, each explained in CONTRIBUTING.md", () => {
    const guide = readFileSync(new URL("../CONTRIBUTING.md", import.meta.url), "utf8");

    expect(sources.filter(({ path }) => rankOf(path) === -1).map(({ path }) => path)).toEqual([]);
    expect(FOLDERS.filter((folder) => !guide.includes(`\`${folder}\``))).toEqual([]);
  });

  it("import only from folders below their own", () => {
    const upward = arrows(
      ({ path }, { target }) => target.startsWith("src/") && rankOf(target) > rankOf(path),
    );

    expect(upward).toEqual([]);
  });

  it("belong to one area each, which the compiler knows", () => {
    const areas = new URL("../areas/", import.meta.url);
    const folders = readdirSync(areas)
      .filter((name) => name.endsWith(".json"))
      .flatMap((name) => JSON.parse(readFileSync(new URL(name, areas), "utf8")).include as string[])
      .map((path) => path.slice("../".length));
    const areasOf = ({ path }: SourceFile) =>
      folders.filter((one) =>
        one === "src/*.ts" ? /^src\/[^/]+\.ts$/.test(path) : path.startsWith(`${one}/`),
      );

    expect(sources.filter((file) => areasOf(file).length !== 1).map(({ path }) => path)).toEqual([]);
  });

  it("import each other in one direction only, types included", () => {
    expect(cyclesOf(sources)).toEqual([]);
  });

  it("include imports of types when cycles are searched for", () => {
    const found = sources.find(({ path }) => path === "src/core/runs/replay/questions.ts")!;
    const back = {
      target: "src/core/runs/replay/run.ts",
      specifier: "./run.ts",
      typeOnly: true,
      lazy: false,
    };
    const mutant = sources.map((file) =>
      file === found ? { ...file, imports: [...file.imports, back] } : file,
    );

    expect(cyclesOf(mutant)).toContain("src/core/runs/replay/questions.ts → src/core/runs/replay/run.ts");
  });

  it("keep plugins apart from each other, and platforms except for what they share", () => {
    const across = arrows(({ path }, { target }) => {
      const [from, to] = [memberOf(path), memberOf(target)];
      return from !== undefined && to !== undefined && from !== to && !SHARED_BY_PLATFORMS.includes(to);
    });

    expect(across).toEqual([]);
  });

  it("write jobs and cases only in core/entities, and where a store is tested", () => {
    const write =
      /\b(?:insert|change|remove)\("(?:Job|Case)"|table\("(?:Job|Case)"\)\s*\.(?:insert|change|remove)\(/;
    const writers = sources.filter(({ text }) => write.test(text)).map(({ path }) => path);

    expect(writers.filter((path) => path.startsWith("src/core/entities/")).length).toBeGreaterThan(1);
    expect(writers.filter((path) => !/^src\/core\/(entities|store\/contract)\//.test(path))).toEqual([]);
  });

  it("use the environment of the process only where a controller is loaded: other commands have a copy of their own", () => {
    // A controller that is loaded takes secrets out of it.
    const uses =
      /process\s*\.env\b|process\[|\benv\b[^;{]*\}?\s*from "node:process"|\{[^}]*\benv\b[^}]*\} = process\b/;
    const isUse = ({ path, text }: SourceFile) =>
      /^src\/(cli|deploy|plugins\/platforms)\//.test(path) &&
      uses.test(text.replace(/^\s*(\/\/|\/?\*).*$/gm, ""));

    expect(sources.filter(isUse).map(({ path }) => path)).toEqual([
      // For the code of the controller.
      "src/cli/load-controller.ts",
      // For the code of the controller.
      "src/cli/check/load-code.ts",
      // For a library.
      "src/plugins/platforms/aws/aws.ts",
      // In a container of the service.
      "src/plugins/platforms/server/data.ts",
    ]);
  });

  it("use the client of Postgres in one file only", () => {
    const users = arrows((_file, { specifier }) => packageOf(specifier) === "pg");

    expect(users).toEqual(["src/core/store/postgres/connection.ts → pg"]);
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
      // The build joins it into the modules.
      if (!config.external.test(name)) return false;
      return !(name === "vitest" && isSuite) && !(typeOnly && name in (manifest.devDependencies ?? {}));
    });

    expect(undeclared).toEqual([]);
  });

  it("load optional packages when they are used, not before", () => {
    const early = arrows(
      (_file, { specifier, typeOnly, lazy }) =>
        manifest.peerDependenciesMeta[packageOf(specifier)]?.optional === true && !typeOnly && !lazy,
    );

    // An entry of its own: who imports it has React.
    expect(early).toEqual(["src/client/react.ts → react"]);
  });

  it("export by name, except for platforms, which are loaded by name", () => {
    const defaults = sources
      .filter(({ path, text }) => /^export default /m.test(text) && !path.endsWith("/platform.ts"))
      .map(({ path }) => path);

    expect(defaults).toEqual([]);
  });

  it("have no state at module level, except in the test kit", () => {
    const variables = sources.filter(({ text }) => /^(export )?let /m.test(text)).map(({ path }) => path);

    expect(variables.sort()).toEqual(["src/testing/crash-test.ts", "src/testing/rsa-key.ts"]);
  });
});
