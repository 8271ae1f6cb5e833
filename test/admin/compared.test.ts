import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { jobContext, until } from "../runs/_jobs.ts";

const exporter = defineAgent({
  name: "Exporter",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ day: v.string(), broken: v.boolean() }),
      async run({ job, fields: { day, broken } }) {
        for (const [ref, name] of [
          [`first-${job.id}`, `Orders of ${day}`],
          [`second-${job.id}`, "Totals"],
          [`third-${job.id}`, `Returns of ${day}`],
        ] as const) {
          const item = await job.openCase({ id: ref, name });
          await item.step(`read ${day}.csv`, () => name.length);
          await item.step("send", () => (broken && name.startsWith("Returns") ? "lost" : "sent"));
          await item.close();
        }
        return "done";
      },
    },
  },
});

it("two jobs are compared although their cases and steps have the date of their day in their names", async () => {
  await using server = await testServer({ agents: [exporter] });
  const start = async (id: string, day: string, broken: boolean) => {
    const job_fields = { day, broken };
    await server.request("/agents/exporter/jobs", { json: { job_context: jobContext(id), job_fields } });
    await until(server.service, id);
  };
  await start("good", "2026-11-25", false);
  await start("bad", "2026-11-26", true);

  const answer = await server.request("/admin/api/jobs/bad/compare?with=good");
  const { calls } = (await answer.json()) as {
    calls: { case_name: string; name: string; differs: string[] }[];
  };

  expect(calls.map(({ case_name, name, differs }) => [case_name, name, ...differs])).toEqual([
    ["Orders of 2026-11-26", "read 2026-11-26.csv"],
    ["Orders of 2026-11-26", "send"],
    ["Totals", "read 2026-11-26.csv"],
    ["Totals", "send"],
    ["Returns of 2026-11-26", "read 2026-11-26.csv"],
    ["Returns of 2026-11-26", "send", "output"],
  ]);
});

it("a question that waits for its answer is called so where two jobs are compared", async () => {
  const asker = defineAgent({
    name: "Asker",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const item = await job.openCase({ id: job.id, name: "Order 7" });
          await item.ask({ question: "Refund it?", fields: [{ name: "yes", field_type: "BooleanField" }] });
        },
      },
    },
  });
  await using server = await testServer({ agents: [asker] });
  for (const id of ["one", "two"]) {
    await server.request("/agents/asker/jobs", { json: { job_context: jobContext(id), job_fields: {} } });
    await expect
      .poll(async () => (await server.request(`/admin/api/jobs/${id}`)).json())
      .toMatchObject({ status: "awaiting" });
  }
  await server.request("/admin/api/cases/one/answer", { json: { answer: { yes: true } } });
  await until(server.service, "one");

  const headers = { accept: "text/html" };
  const html = await (await server.request("/admin/jobs/one/compare?with=two", { headers })).text();
  const calls = html.slice(html.indexOf("What differs")).replaceAll(/(\s*<[^>]*>)+\s*/g, " ");

  expect(calls).toMatch(/Question Refund it\?.*Completed.*Waiting/);
  expect(calls).not.toContain("In progress");
});
