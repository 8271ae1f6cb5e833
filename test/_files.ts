import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A test file, and how it runs: comments in its first lines say so. */
export interface TestFile {
  /** From the project's root: `test/runs/kill.test.ts`. */
  readonly path: string;
  /** `@long`: takes more than some seconds of a processor. `npm test` leaves it out, `npm run test:all` runs it. */
  readonly isLong: boolean;
  /**
   * `@alone`: changes or measures what a process has only once (environment, memory, loaded modules, listeners), so it gets
   * a process of its own. All others share theirs, and load the sources once.
   */
  readonly isAlone: boolean;
  /** `@losses`: kills, cuts or interleaves at random and looks for what is lost. One failure is one too many: it is not repeated. */
  readonly seeksLosses: boolean;
  /** `@area core admin`: of which areas it is, where its folder does not have the name of one of their folders. */
  readonly areas: readonly string[];
}

const MARKS = /^\/\/ @(long|alone|losses)\b/gm;
const AREAS = /^\/\/ @area (.+)$/m;

/** All test files of the project. */
export function testFiles(): TestFile[] {
  return filesOfTests()
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => {
      const head = readFileSync(join(ROOT, path), "utf8").slice(0, 1000);
      const marks = [...head.matchAll(MARKS)].map(([, mark]) => mark);
      return {
        path,
        isLong: marks.includes("long"),
        isAlone: marks.includes("alone"),
        seeksLosses: marks.includes("losses"),
        areas: AREAS.exec(head)?.[1]?.split(" ") ?? [],
      };
    });
}

/** The files below `test`, those with helpers too, from the project's root. */
export function filesOfTests(): string[] {
  return readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && basename(name) !== "node_modules")
    .map((name) => `test/${name}`)
    .sort();
}
