import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { AttemptCounter } from "../../src/plugins/admin/views/attempts.ts";
import { jobContext, until } from "../runs/_jobs.ts";
import { postForm, signIn } from "./_sign-in.ts";

const sender = defineAgent({
  name: "Sender",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        await job.step("read", () => 1);
        await job.step("send", () => Promise.reject(new Error("no route")), {
          ...{ kind: "tool", input: {}, retries: 2, backoff: { initial: 1, max: 1, factor: 1 } },
        });
      },
    },
  },
});

it("each run of a job has its own attempts: after a retry, the page does not count those before", async () => {
  await using server = await testServer({ agents: [sender] });
  await server.request("/agents/sender/jobs", { json: { job_context: jobContext("twice") } });
  await until(server.service, "twice");
  const cookie = await signIn(server, "Ada");
  await postForm(server, "/admin/jobs/twice/retry", { from: "last_step" }, { cookie });
  await until(server.service, "twice");
  const textOf = async (query: string) => {
    const response = await server.request(`/admin/jobs/twice?${query}`, { headers: { accept: "text/html" } });
    return (await response.text()).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  };

  for (const query of ["run=1", "run=2", "tab=calls"]) {
    const text = await textOf(query);
    expect(text).toContain("3 attempts");
    expect(text).not.toContain("6 attempts");
  }
  // Each attempt keeps the number that the handler was given.
  expect(await textOf("run=2")).toMatch(/Attempt 4 .* Attempt 5 .* Attempt 6 /);
});

it("attempts that a crash cut short belong to their run, and those of a run before do not", () => {
  const at = "2026-01-01T00:00:00.000Z";
  const send = { at, position: 1, call: "step", name: "send" } as const;
  const first: RunEntry[] = [
    { ...send, type: "attempt", call: undefined, attempt: 1, error: "no" } as unknown as RunEntry,
    // The second one was cut short.
    { ...send, type: "call", attempts: 3, error: { name: "Error", message: "no" } },
    { type: "status", at, from: "in_progress", to: "failed" },
  ];
  const second: RunEntry[] = [
    { type: "status", at, from: "failed", to: "in_progress" },
    { ...send, position: 0, type: "call" },
    { ...send, type: "call", attempts: 5 },
  ];

  const whole = new AttemptCounter();
  expect([...first, ...second].map((entry) => whole.add(entry))).toEqual([1, 3, 1, 1, 1, 2]);
  const before = new AttemptCounter();
  for (const entry of first) before.add(entry);
  const counter = new AttemptCounter(before.last());
  expect(second.map((entry) => counter.add(entry))).toEqual([1, 1, 2]);
});
