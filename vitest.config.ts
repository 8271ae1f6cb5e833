import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that drive browsers, containers or many processes: begun first, so that the short ones fill the gaps. */
const LONG = [
  "torture",
  "package",
  "browser",
  "docker",
  "local",
  "kill",
  "simulat",
  "flow",
  "resume",
  "outage",
  "examples",
];

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = (file: TestSpecification) => LONG.some((word) => file.moduleId.includes(word));
    return (await super.sort(files)).toSorted((a, b) => Number(isLong(b)) - Number(isLong(a)));
  }
}

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Files that change or measure what a process has only once (environment, working folder, memory, loaded modules), or
 * that drive many processes: each gets a process of its own. All others share theirs, and load the sources once.
 */
const ALONE = [
  "test/*.test.ts",
  "test/{cli,clouds,deploy}/**/*.test.ts",
  "test/events/{cli,docs,otel,otel-sampling,outage,leaks}.test.ts",
  "test/runs/{careless-agent,full-disk,kill,rough,signals,torture}.test.ts",
  "test/store/{full-disk,kill,power-cut,simulation,shim}.test.ts",
];

export default defineConfig({
  resolve: {
    alias: [
      { find: /^agent-control-service\/(\w+)$/, replacement: source("./src/$1.ts") },
      { find: /^agent-control-service$/, replacement: source("./src/index.ts") },
    ],
  },
  test: {
    globalSetup: ["test/_once.ts"],
    // A busy machine is slow, not wrong.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 10_000 } },
    reporters: ["default"],
    // Tests start servers and processes of their own: more than two at once starve each other on a small machine.
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongFirst },
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      {
        extends: true,
        test: { name: "together", include: ["test/**/*.test.ts"], exclude: ALONE, isolate: false },
      },
    ],
  },
});
