import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { compiledTemplates } from "./compile-templates.ts";
import { affectedBy, changedSince } from "./test/_affected.ts";
import { type TestFile, testFiles } from "./test/_files.ts";
import { NATIVE, nativeSources } from "./test/_native.ts";
import { openRun } from "./test/_once.ts";

// Each project of it reads this file.
const isFirst = process.env.SVC_TEST_RUN === undefined;
openRun();

/** The change that is checked: with a commit, only the files that the changes since then concern. */
const since = process.env.SVC_SINCE;
/**
 * The part of the chosen long files that is run, and of how many: `2/5`, or `7/6 files` for as many parts as have six files
 * each at most. Those that look for losses in the core are in every part.
 */
const part = process.env.SVC_PART;

const files = testFiles();
const chosen = new Set(since ? affectedBy(changedSince(since), files) : files.map(({ path }) => path));
if (part) {
  const long = files.filter(
    ({ path, isLong, seeksLosses }) =>
      isLong && chosen.has(path) && !(seeksLosses && /^test\/(runs|store|http|instances)\//.test(path)),
  );
  const [, turn, count, isFiles] = /^(\d+)\/(\d+)( files)?$/.exec(part)!;
  const turns = isFiles ? Math.ceil(long.length / Number(count)) : Number(count);
  for (const [at, { path }] of long.entries()) if (at % turns !== Number(turn) % turns) chosen.delete(path);
}
const leftOut = files.filter(({ path }) => !chosen.has(path));
if (isFirst && leftOut.length > 0) console.log(`Not run: ${leftOut.map(({ path }) => path).join(", ")}`);

/**
 * The long files first; of them, those first that need no programs that may be being installed. Then those that share a
 * process, in one row: it ends where the next file wants one of its own. The short ones that are alone fill the end.
 */
class LongFirst extends BaseSequencer {
  override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const isLong = project.name.startsWith("long");
      return isLong ? Number(needsPrograms(moduleId)) : 2 + Number(project.config.isolate);
    };
    return (await super.sort(specifications)).toSorted((a, b) => rank(a) - rank(b));
  }
}

const needsPrograms = (path: string) => readFileSync(path, "utf8").includes("requirement(");

function project(name: string, which: (file: TestFile) => boolean, isolate: boolean) {
  const include = files.filter((file) => chosen.has(file.path) && which(file)).map(({ path }) => path);
  return { extends: true as const, test: { name, include, isolate } };
}

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [nativeSources(), compiledTemplates()],
  resolve: {
    alias: [
      { find: /^agent-control-service\/testing$/, replacement: source("./test/_testing.ts") },
      { find: /^agent-control-service\/plugin$/, replacement: source("./test/_plugin.ts") },
      { find: /^agent-control-service\/([\w/]+)$/, replacement: source("./src/$1.ts") },
      { find: /^agent-control-service$/, replacement: source("./src/index.ts") },
    ],
  },
  test: {
    server: { deps: { external: [NATIVE] } },
    // A busy machine is slow, not wrong.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ["default"],
    pool: "forks",
    // Many files wait most of the time: four more than the cores of a small machine keep these busy.
    maxWorkers: 6,
    sequence: { sequencer: LongFirst },
    projects: [
      project("together", (file) => !file.isLong && !file.isAlone, false),
      project("alone", (file) => !file.isLong && file.isAlone, true),
      project("long", (file) => file.isLong && !file.isAlone, false),
      project("long-alone", (file) => file.isLong && file.isAlone, true),
    ],
  },
});
