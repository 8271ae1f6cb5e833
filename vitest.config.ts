import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { NATIVE, nativeSources } from "./test/_native.ts";
import { openRun } from "./test/_once.ts";

// Each project of it reads this file.
const isFirst = process.env.SVC_TEST_RUN === undefined;
openRun();

/**
 * The long files, in the order in which they begin: those that mostly wait are among those that compute. What needs programs
 * that may be installed meanwhile is not the very first.
 */
const LONG = [
  "runs/programs",
  "store/simulation",
  "clouds/flow",
  "clouds/open-jobs",
  "runs/torture",
  "deploy/real-local",
  "deploy/local",
  "clouds/killed",
  "package",
  "docs/site",
  "docs/commands",
  "on-postgres",
  "store/kill",
  "deploy/resume",
  "runs/schedules-killed",
  "events/outage",
  "runs/isolate",
  "runs/crash-loop",
  "runs/signals",
  "runs/kill",
  // These share a process with those after them.
  "admin/browser",
  "deploy/ssh-docker",
  "cli/instances",
  "runs/isolated-rehearsals",
  "cli/job",
  "cli/comforts",
  "cli/pull",
  "cli/dev",
  "compilers",
  "deploy/docker",
  "cli/start",
  "gate/gate",
  "store/postgres",
  "admin/open-page",
  "admin/weight",
  "clouds/bucket-store",
  "clouds/independent-clients",
  "clouds/image-tags",
  "gate/flood",
];

/**
 * The long files first. Then those that share a process, in one row: it ends where the next file wants one of its own.
 * The short ones that are alone fill the end.
 */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const place = LONG.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      if (place >= 0) return place;
      return LONG.length + Number(project.config.isolate);
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Files that change or measure what a process has only once (environment, memory, loaded modules, listeners): each gets
 * a process of its own. All others share theirs, and load the sources once.
 */
const ALONE = [
  "test/{examples,lazy,on-postgres,package,skipped}.test.ts",
  "test/clouds/{flow,killed,lazy-clients,missing-package,open-jobs}.test.ts",
  "test/deploy/{local,network,real-local,resume}.test.ts",
  "test/events/{cli,docs,gen-ai,otel,otel-sampling,outage,leaks}.test.ts",
  "test/runs/{careless-agent,crash-loop,isolate,full-disk,kill,rough,run-twice,schedules-killed,signals,torture}.test.ts",
  "test/docs/site.test.ts",
  "test/store/{full-disk,kill,power-cut,simulation,shim}.test.ts",
];

/**
 * The costliest files, in parts that cost about the same: the check of a commit runs one of them (`SVC_TURN`, a number),
 * as many commits in a row as there are parts run all. `npm test` alone runs all.
 */
const IN_TURN = [
  `on-postgres clouds/bucket-store deploy/server-contract cli/start deploy/storage cli/plugin-commands
   clouds/independent-clients runs/instances-crash-loop package cli/comforts deploy/server-team compilers`,
  `clouds/killed deploy/real-workspace deploy/server-proxy deploy/server-backup
   runs/schedules clouds/environments cli/dev admin/browser clouds/documented-permissions
   store/postgres-server`,
  `deploy/server-engine deploy/docker deploy/ssh-docker admin/every-page cli/instances admin/weight
   gate/flood cli/move store/move deploy/resume`,
  `deploy/local clouds/pipeline admin/open-page cli/init cli/pull clouds/given-image clouds/app-runner
   testing/crash-test deploy/real-local storage/buckets cli/check deploy/build-cache clouds/exports docs/commands`,
  `gate/gate docs/site deploy/server deploy/server-killed admin/desk events/outage cli/job
   runs/isolated-rehearsals clouds/flow clouds/open-jobs store/postgres clouds/checkouts`,
].map((part) => part.split(/\s+/));
const turn = process.env.SVC_TURN;
const leftOut = turn
  ? IN_TURN.flatMap((files, part) => (part === Number(turn) % IN_TURN.length ? [] : files))
  : [];
if (isFirst && leftOut.length > 0) console.log(`In the checks of the next commits: ${leftOut.join(", ")}`);
const excluded = leftOut.map((file) => `test/${file}.test.ts`);

export default defineConfig({
  plugins: [nativeSources()],
  resolve: {
    alias: [
      { find: /^agent-control-service\/testing$/, replacement: source("./test/_testing.ts") },
      { find: /^agent-control-service\/([\w/]+)$/, replacement: source("./src/$1.ts") },
      { find: /^agent-control-service$/, replacement: source("./src/index.ts") },
    ],
  },
  test: {
    server: { deps: { external: [NATIVE] } },
    // A busy machine is slow, not wrong.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ["default"],
    pool: "forks",
    // Many files wait most of the time: four more than the cores of a small machine keep these busy.
    maxWorkers: 6,
    sequence: { sequencer: LongFirst },
    projects: [
      { extends: true, test: { name: "alone", include: ALONE, exclude: excluded } },
      {
        extends: true,
        test: {
          name: "together",
          include: ["test/**/*.test.ts"],
          exclude: [...ALONE, ...excluded],
          isolate: false,
        },
      },
    ],
  },
});
