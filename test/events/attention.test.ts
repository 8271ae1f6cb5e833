import { setTimeout as wait } from "node:timers/promises";
import { defineAgent } from "agent-control-service";
import { EVENTS, type Plugin } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { STORE } from "../../src/core/service/tokens.ts";

const HOUR = 3_600_000;

const breaker = defineAgent({
  name: "Breaker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "error", required: true }],
      run: ({ fields }) => {
        throw new Error(String(fields.error));
      },
    },
  },
});

interface Report {
  readonly state: string;
  readonly kind: string;
  readonly text?: string;
  readonly about: string;
}

/** A receiver that keeps what it got about people who are needed. */
function receiver(name: string) {
  const reports: Report[] = [];
  const plugin: Plugin = {
    name,
    dependsOn: ["events"],
    setup({ get }) {
      get(EVENTS).addTarget({
        name,
        accepts: ({ details }) => details.reason === "attention",
        send: async ({ body }) => {
          reports.push((body as { details: Report }).details);
        },
      });
    },
  };
  return { reports, plugin };
}

it("what needs a person is reported once when it begins, once when it is over, and not again after a restart", async () => {
  const { reports, plugin } = receiver("desk");
  let moved = 0;
  const clock = () => new Date(Date.now() + moved);
  const options = { agents: [breaker], plugins: [plugin], clock, store: undefined, shutdownGrace: 0 };
  const fail = async (server: Awaited<ReturnType<typeof testServer>>, error: string) => {
    await server.request("/agents/breaker/jobs", {
      json: { job_fields: { error } },
      headers: { prefer: "wait=20" },
    });
  };
  const states = () =>
    reports.map(({ state, kind, text = "" }) => `${state} ${kind} ${/: (.*)$/.exec(text)?.[1] ?? ""}`);

  await using first = await testServer(options);
  await fail(first, "no route to host");
  await expect.poll(states).toEqual(["raised failures no route to host"]);
  await fail(first, "no route to host");
  await first.service.close();

  await using second = await testServer({ ...options, dataDir: first.dataDir });
  await fail(second, "no route to host");
  await fail(second, "disk is full");
  await expect.poll(states).toEqual(["raised failures no route to host", "raised failures disk is full"]);

  // A day later, the first reasons are not of today; another look finds that, and a third one.
  moved = 25 * HOUR;
  await fail(second, "certificate has expired");
  await expect
    .poll(() => states().toSorted())
    .toEqual([
      "cleared failures ",
      "cleared failures ",
      "raised failures certificate has expired",
      "raised failures disk is full",
      "raised failures no route to host",
    ]);
  expect(new Set(reports.map(({ about }) => about)).size).toBe(3);
  const { items } = await second.service.get(STORE).table("AttentionNotice").list({ limit: 10 });
  expect(items).toMatchObject([{ kind: "failures", agent: "breaker" }]);
});

it("what one instance does not see is not over while another one has just seen it", async () => {
  const { reports, plugin } = receiver("desk");
  await using server = await testServer({ agents: [breaker], plugins: [plugin], store: undefined });
  const at = new Date().toISOString();
  const seen = { kind: "stuck", agent: "other", about: null, raised_at: at, seen_at: at };
  await server.service.get(STORE).transaction(async (tx) => {
    await tx.insert("AttentionNotice", { id: "stuck/other/", ...seen });
    await tx.insert("AttentionNotice", {
      id: "stuck/gone/",
      ...seen,
      agent: "gone",
      seen_at: new Date(0).toISOString(),
    });
  });

  await server.request("/agents/breaker/jobs", {
    json: { job_fields: { error: "no" } },
    headers: { prefer: "wait=20" },
  });

  await expect
    .poll(() => reports.map(({ state, kind }) => `${state} ${kind}`).toSorted())
    .toEqual(["cleared stuck", "raised failures"]);
  await wait(50);
  expect(await server.service.get(STORE).table("AttentionNotice").get("stuck/other/")).toBeDefined();
});
