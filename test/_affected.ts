import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { filesOfTests, type TestFile } from "./_files.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The uppermost area: the package's entries. */
const TOP = "face";
const IMPORTS = /(?:from|import\()\s*"(\.{1,2}\/[^"]+\.tsx?)"/g;

/** A part of the sources that the compiler knows as a project: `areas/*.json`. */
interface Area {
  readonly name: string;
  /** Folders, from the project's root. */
  readonly sources: readonly string[];
  /** The areas that it imports from. */
  readonly below: readonly string[];
}

/** The files that differ from a commit, those that git does not know yet too. */
export function changedSince(commit: string): string[] {
  const git = (...words: string[]) => execFileSync("git", words, { cwd: ROOT, encoding: "utf8" });
  const known = git("diff", "--name-only", "--no-renames", commit);
  const unknown = git("ls-files", "--others", "--exclude-standard");
  return `${known}${unknown}`.split("\n").filter((line) => line !== "");
}

/**
 * The test files that a change concerns: those of the areas that changed and of the areas above them, and those that import
 * what changed. A test belongs to the areas that it names (`@area`), else to the one whose folder has the name of its own
 * (`test/runs`: `src/core/runs`); without one, to the uppermost, and runs whatever changed. A changed file that no rule knows concerns all.
 *
 * @param changed Paths from the project's root.
 */
export function affectedBy(changed: readonly string[], tests: readonly TestFile[]): string[] {
  const areas = readAreas();
  const unknown = tests
    .flatMap((test) => test.areas)
    .find((area) => !areas.some(({ name }) => name === area));
  if (unknown !== undefined)
    throw new Error(`A test names the area ${unknown}, which is none of areas/*.json`);
  const homes = homesOf(areas);
  const areaOf = (path: string) => {
    if (/^src\/[^/]+\.ts$/.test(path)) return TOP;
    // A template and a public file are of the area that serves them.
    const [, served] = /^src\/templates\/(?:public\/)?([^/]+)\//.exec(path) ?? [];
    if (served !== undefined) return homes.get(served);
    return areas.find(({ sources }) => sources.some((folder) => path.startsWith(`${folder}/`)))?.name;
  };

  const changedAreas = new Set<string>();
  const changedTests = new Set<string>();
  let pagesChanged = false;
  for (const path of changed) {
    const area = areaOf(path);
    if (area) changedAreas.add(area);
    else if (path.startsWith("test/")) changedTests.add(path);
    else if (/^(docs|examples|site)\/|^[A-Z]+\.md$/.test(path)) pagesChanged = true;
    else if (!path.startsWith("bench/")) return tests.map(({ path: test }) => test);
  }

  const above = withThoseAbove(changedAreas, areas);
  if (pagesChanged) above.add(TOP);
  const importsOf = readImports();
  const isConcerned = ({ path, areas: named }: TestFile): boolean => {
    const [, folder, ...rest] = path.split("/");
    const own = named.length > 0 ? named : [(rest.length > 0 && homes.get(folder!)) || TOP];
    if (own.some((area) => above.has(area))) return true;
    const reached = reachedFrom(path, importsOf);
    return reached.some((file) => changedTests.has(file) || changedAreas.has(areaOf(file) ?? ""));
  };
  return tests.filter(isConcerned).map(({ path }) => path);
}

/** Those that import from one of them, directly or through others, and they themselves. */
function withThoseAbove(changed: ReadonlySet<string>, areas: readonly Area[]): Set<string> {
  const above = new Set(changed);
  for (const below of above) {
    for (const area of areas) if (area.below.includes(below)) above.add(area.name);
  }
  return above;
}

function readAreas(): Area[] {
  const folder = join(ROOT, "areas");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .map((name) => {
      const { include, references = [] } = JSON.parse(readFileSync(join(folder, name), "utf8")) as {
        include: string[];
        references?: { path: string }[];
      };
      return {
        name: name.replace(".json", ""),
        sources: include.map((path) => posix.join("areas", path)),
        below: references.map(({ path }) => path.replace("./", "").replace(".json", "")),
      };
    });
}

/** Name of a folder of sources to its area. */
function homesOf(areas: readonly Area[]): Map<string, string> {
  return new Map(areas.flatMap(({ name, sources }) => sources.map((path) => [posix.basename(path), name])));
}

/** The project's files that each file of the tests imports by a path. */
function readImports(): Map<string, string[]> {
  return new Map(
    filesOfTests().map((path) => {
      const text = readFileSync(join(ROOT, path), "utf8");
      const imports = [...text.matchAll(IMPORTS)].map(([, target]) =>
        relative(ROOT, join(ROOT, dirname(path), target!)),
      );
      return [path, imports];
    }),
  );
}

function reachedFrom(path: string, importsOf: ReadonlyMap<string, string[]>): string[] {
  const reached = new Set([path]);
  for (const file of reached) for (const target of importsOf.get(file) ?? []) reached.add(target);
  return [...reached];
}
