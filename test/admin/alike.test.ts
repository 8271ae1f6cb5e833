import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it, vi } from "vitest";

const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "count", field_type: "IntegerField", default: 3 }],
      async run({ job, fields }) {
        const asks = Array.from({ length: Number(fields.count) }, async (_, at) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Invoice ${at}` });
          await item.step("read", () => ({ total: 40 + at }));
          const { approved } = await item.ask("pay", {
            question: at === 2 ? "Pay the invoice later?" : "Pay the invoice <b>now</b>?",
            fields: [{ name: "approved", field_type: "BooleanField", required: true }],
            ...{ deadline: "2h", onTimeout: "default", default: { approved: false } },
          });
          await item.close({ approved });
        });
        await Promise.all(asks);
        const other = await job.openCase({ id: `${job.id}-other`, name: "Other" });
        await other.ask({ question: "Why?", fields: [{ name: "reason", required: true }] });
        return { message: "done" };
      },
    },
  },
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [payer] });
  await server.request("/agents/payer/jobs", {
    json: { job_context: { job_id: "p" }, job_fields: { count: 3 } },
  });
  await vi.waitUntil(async () => (await open()).length === 3, { timeout: 60_000 });
});
afterAll(() => server[Symbol.asyncDispose]());

async function open(): Promise<string[]> {
  const { items } = (await (await server.request("/admin/api/inbox")).json()) as {
    items: { case_id: string }[];
  };
  return items.map(({ case_id }) => case_id).sort();
}

const page = async (path: string) =>
  (await server.request(`/admin/${path}`, { headers: { accept: "text/html" } })).text();

function post(path: string, form: [string, string][]) {
  return server.request(`/admin/${path}`, {
    method: "POST",
    body: new URLSearchParams(form).toString(),
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      origin: server.url,
      accept: "text/html",
    },
    redirect: "manual",
  });
}

it("a question has beside it what its case found, the time that is left, and its default in words", async () => {
  const text = await page("inbox");

  expect(text).toMatch(/class="due soon"[^>]*>due in (?:2 h|1 h \d+ min)</);
  expect(text).toMatch(
    /If nobody answers <time[^>]*>in the next (?:2 h|1 h \d+ min)<\/time>, the default is used: Approved: No\./,
  );
  expect(text).toMatch(/What is known[\s\S]*read[\s\S]*total[\s\S]*4[012]/);
  expect(text.match(/Answer all like this/g)).toHaveLength(1);
});

it("equal questions are answered with one form: those that are ticked, and only as long as they ask the same", async () => {
  const [first] = await open();
  const path = `cases/${first}/alike`;
  const form = await page(path);
  // The inbox led here.
  expect(form.match(/href="([^"]+)" title="[^"]*" aria-current="page"/)?.[1]).toBe("/admin/inbox");
  const valuesOf = (pattern: RegExp) => [...form.matchAll(pattern)].map(([, value]) => value!);
  const picks = valuesOf(/name="pick" value="([^"]+)"/g);

  expect(form).toContain("Answer 3 questions together");
  expect(form.includes("<b>now</b>")).toBe(false);
  expect(picks).toHaveLength(3);
  // The one with another text is not ticked, and says why.
  expect(valuesOf(/name="pick" value="([^"]+)" checked/g)).toEqual(
    picks.filter((pick) => !pick.startsWith("p-2 ")),
  );
  expect(form.match(/asks something else/g)).toHaveLength(1);
  const none = await post(path, [["f.approved", "true"]]);
  const incomplete = await post(
    path,
    picks.map((pick) => ["pick", pick]),
  );
  expect([none.status, incomplete.status]).toEqual([422, 422]);
  expect(await none.text()).toContain("No question is selected.");
  expect(await open()).toHaveLength(3);

  const [, second, third] = picks;
  const answered = await post(path, [
    ["pick", second!],
    ["pick", `${third!.split(" ")[0]} another-question`],
    ["f.approved", "true"],
    ["message", "fine"],
  ]);

  expect([answered.status, answered.headers.get("location")]).toEqual([303, "/admin/inbox"]);
  expect(await open()).toEqual(
    picks
      .filter((pick) => pick !== second)
      .map((pick) => pick.split(" ")[0])
      .sort(),
  );
  const again = await post(path, [
    ["pick", second!],
    ["f.approved", "false"],
  ]);
  expect(again.status).toBe(303);
  const item = async () => (await server.request(`/admin/api/cases/${second!.split(" ")[0]}`)).json();
  await expect.poll(item).toMatchObject({ final_delivery: { approved: true } });
  expect(await page(`cases/${second!.split(" ")[0]}`)).toMatch(/<dt>Answered by<\/dt><dd>api-key/);
});
