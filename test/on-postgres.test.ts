// @alone
// @long
// @area core
import { readdirSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { requirement } from "./_require.ts";
import { shareOf } from "./_share.ts";

const FOLDERS = ["runs", "events", "instances"];

const SHARES = 12;
/** The costliest: each in another share, as far as there are as many. */
const COSTLY = [
  ...["runs/override-table", "runs/children", "runs/isolated-steps", "runs/schedules", "runs/suspend-steer"],
  ...["runs/order", "events/agent-run", "runs/rough", "events/otel", "runs/turns", "runs/instances"],
  ...["events/dead-letters", "events/otel-sampling"],
];

/** Why these files do not run here. */
const OTHERS = {
  "about the data folder, its disk, or the process that has it": [
    ...["runs/careless-agent", "runs/crash-loop", "runs/damaged", "runs/downtime", "runs/full-disk"],
    ...["runs/held-in-crash-loop", "runs/kill", "runs/linked-kill", "runs/schedules-killed", "runs/signals"],
    ...["runs/under-way"],
    ...["runs/torture", "runs/isolate", "runs/isolated-changed", "runs/isolated-rehearsals"],
    ...["events/cli", "events/leaks", "events/outage", "events/store-secrets"],
  ],
  "about something that has no store": [
    ...["runs/named-questions", "runs/planned-times", "runs/scheduler", "runs/torture-mix"],
    ...["events/control-host", "events/docs", "events/parameters", "events/telemetry-buffer"],
  ],
  "about keys that a service makes itself: those of a shared store are given": [
    "events/unreadable-parameters",
  ],
  "runs other files": ["runs/run-twice"],
  "takes its stores from recorded writes (runs/programs-taken-over does not)": ["runs/programs"],
  "measures or limits how long thousands of steps take": ["runs/fairness"],
} as const;

const all = FOLDERS.flatMap((folder) =>
  readdirSync(new URL(folder, import.meta.url))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${folder}/${name.replace(".test.ts", "")}`),
);
const left = new Set<string>([...COSTLY, ...Object.values(OTHERS).flat()]);
const files = [...COSTLY, ...all.filter((file) => !left.has(file)).sort()];

it("names only files that exist", () => {
  expect([...left].filter((file) => !all.includes(file))).toEqual([]);
});

requirement("postgres").describe("on Postgres", () => {
  process.env.SVC_TEST_STORE = "postgres";
  afterAll(() => {
    delete process.env.SVC_TEST_STORE;
  });
  for (const file of shareOf(files, SHARES)) {
    const path = new URL(`${file}.test.ts`, import.meta.url).pathname;
    describe(file, async () => {
      await import(/* @vite-ignore */ path);
    });
  }
});
