import { readdirSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { requirement } from "./_require.ts";
import { shareOf } from "./_share.ts";

/** Files whose cases hold whatever the store is, and run here with one in a database; costly ones apart from each other. */
const FILES = [
  ...["runs/override-table", "runs/children", "runs/isolated-steps", "runs/schedules", "runs/suspend-steer"],
  ...["runs/order", "events/agent-run", "runs/rough", "events/otel", "runs/turns", "runs/instances"],
  "events/dead-letters",
  // Those that cost the least run in the same checks as those that cost the most.
  ...["instances/keys", "runs/run", "runs/unreadable", "instances/pages"],
  ...["instances/once", "runs/questions", "runs/contested", "runs/many-cases", "events/telemetry"],
  ...["events/inbox", "runs/stopped-while-left", "instances/live", "runs/cost-shown", "runs/large-errors"],
  ...["runs/behind-the-end", "runs/retries", "runs/override", "runs/nested-calls", "events/targets"],
  ...["runs/clock", "runs/restart", "runs/replay", "runs/case-history", "runs/held", "runs/resumed"],
  ...["runs/limits", "runs/fork", "runs/suspend", "runs/concurrency", "runs/steps", "instances/bulk"],
  ...["runs/large-results", "runs/code-changes", "runs/events-received", "instances/sessions"],
  ...["events/webhooks", "events/sequence", "events/unreadable-parameters", "events/otel-sampling"],
  ...["instances/events", "instances/idempotency-keys"],
];

/** Why the other files of these folders do not run here. */
const OTHERS = {
  "about the data folder, its disk, or the process that has it": [
    ...["runs/careless-agent", "runs/crash-loop", "runs/damaged", "runs/downtime", "runs/full-disk"],
    ...["runs/held-in-crash-loop", "runs/kill", "runs/linked-kill", "runs/schedules-killed", "runs/signals"],
    ...["runs/torture", "runs/isolate", "runs/isolated-changed", "runs/isolated-rehearsals"],
    ...["events/cli", "events/leaks", "events/outage", "events/store-secrets"],
  ],
  "about something that has no store": [
    ...["runs/named-questions", "runs/planned-times", "runs/scheduler", "runs/torture-mix"],
    ...["events/control-host", "events/docs", "events/parameters", "events/telemetry-buffer"],
  ],
  "about the queue of one process: in a shared store, jobs of an earlier one are claimed in the background": [
    ...["runs/paused", "runs/rate-limit"],
  ],
  "runs other files, or takes its stores from recorded writes": ["runs/run-twice", "runs/programs"],
  "measures or limits how long thousands of steps take": ["runs/fairness"],
} as const;

const FOLDERS = ["runs", "events", "instances"];

it("every file of these folders runs on Postgres, or it is said why not", () => {
  const all = FOLDERS.flatMap((folder) =>
    readdirSync(new URL(folder, import.meta.url))
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => `${folder}/${name.replace(".test.ts", "")}`),
  );

  expect([...FILES, ...Object.values(OTHERS).flat()].sort()).toEqual(all.sort());
});

requirement("postgres").describe("on Postgres", () => {
  process.env.SVC_TEST_STORE = "postgres";
  afterAll(() => {
    delete process.env.SVC_TEST_STORE;
  });
  for (const file of shareOf(FILES, 12)) {
    const path = new URL(`${file}.test.ts`, import.meta.url).pathname;
    describe(file, async () => {
      await import(/* @vite-ignore */ path);
    });
  }
});
