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

export default defineConfig({
  resolve: {
    alias: [
      { find: /^agent-control-service\/testing$/, replacement: source("./src/testing.ts") },
      { find: /^agent-control-service$/, replacement: source("./src/index.ts") },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // A busy machine is slow, not wrong.
    expect: { poll: { timeout: 10_000 } },
    reporters: ["default"],
    // Tests start servers and processes of their own: more than two at once starve each other on a small machine.
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongFirst },
  },
});
