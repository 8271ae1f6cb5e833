import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { failureOf } from "../../src/core/models/failure.ts";
import type { Wellbeing } from "../../src/plugins/admin/pages/well.ts";
import { greeter } from "../_setup.ts";
import { seedCase, seedJob } from "./_seed.ts";
import { postForm, signIn } from "./_sign-in.ts";

const REFUSED = "connect ECONNREFUSED 10.0.0.12:443";
const HOSTILE = '=HYPERLINK("http://x","<b>")';

/** Refuses each time, except for its job "lucky". */
const sender = defineAgent({
  name: "Sender",
  version: "3.0.0",
  methods: {
    job_start: {
      run({ job }) {
        if (job.id === "lucky") return { message: "sent" };
        throw new Error("connect ECONNREFUSED 10.0.0.99:80");
      },
    },
  },
});

/** Spends 3. */
const spender = defineAgent({
  name: "Spender",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        for (const n of [1, 2, 3]) await job.step(`pay ${n}`, () => n, { cost: 1 });
        return { message: "paid" };
      },
    },
  },
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [greeter, sender, spender] });
  const failed = { status: "failed", agent: "sender" } as const;
  await seedJob(server.service, { id: "done", status: "completed" });
  await seedJob(server.service, { ...failed, id: "lucky", error: REFUSED });
  await seedJob(server.service, { ...failed, id: "again", error: `${REFUSED}1\nat send` });
  await seedJob(server.service, { ...failed, id: "strange", agent: "greeter", error: HOSTILE });
  await seedJob(server.service, { ...failed, id: "dear", error: "too dear;=1+1", stop_reason: "max_cost" });
});
afterAll(() => server[Symbol.asyncDispose]());

interface List {
  items: {
    id: string;
    error: string | null;
    failure: string | null;
    count: number;
    stop_reason: string | null;
    limit?: number | null;
  }[];
  total: number;
  reasons: number;
}
const list = async (path: string) => (await (await server.request(`/admin/api/${path}`)).json()) as List;
const ids = async (query: string) => (await list(`jobs?sort=name&${query}`)).items.map(({ id }) => id);
const page = async (path: string, init: object = {}) =>
  (await server.request(`/admin/${path}`, { headers: { accept: "text/html" }, ...init })).text();

const failed = (error: string | null, stop_reason: "error" | "max_cost" | null = "error") =>
  failureOf({ status: "failed", error, stop_reason });

it("errors that differ in numbers and ids only are one reason", () => {
  expect(failed("connect ECONNREFUSED 10.0.0.12:443")).toBe(failed("connect ECONNREFUSED 10.0.1.7:8443"));
  expect(failed("Job 0b5f9c1e-33aa-4d55-9c8e-0a1b2c3d4e5f is gone")).toBe(failed("Job deadbeef01 is gone"));
  expect(failed("no\nat a:1")).toBe(failed("no\nat b:2"));
  expect(failed("no")).not.toBe(failed("yes"));
  expect(failed("no", "max_cost")).not.toBe(failed("no"));
  expect(failureOf({ status: "completed", error: null, stop_reason: null })).toBe(null);
  // Stored indexes have it: another value needs another version of the table.
  expect(failed("connect ECONNREFUSED 10.0.0.12:443")).toBe("79afbb6d7c9c");
});

it("lists have the error, its first line is shown, and searches find it", async () => {
  expect((await list("jobs?search=again")).items).toMatchObject([
    { id: "again", error: `${REFUSED}1\nat send`, failure: failed(REFUSED) },
  ]);
  expect(await ids("search=econnrefused")).toEqual(["again", "lucky"]);
  const text = await page("jobs?status=failed");
  expect(text.includes(`<span class="err" title="${REFUSED}1">${REFUSED}1</span>`)).toBe(true);
  expect(text.includes("<b>&quot;)")).toBe(false);
});

it("failed jobs are grouped by reason, the most frequent first, with agents and versions", async () => {
  const { items, total, reasons } = await list("failures");

  expect([total, reasons]).toEqual([4, 3]);
  expect(items[0]).toMatchObject({
    count: 2,
    failure: failed(REFUSED),
    agents: [{ agent: "sender", version: null }],
  });
  expect(await ids(`failure=${items[0]!.failure}`)).toEqual(["again", "lucky"]);
  expect((await list("failures?days=1")).total).toBe(4);
  const text = await page("failures");
  expect(text).toContain("4 failed jobs, 3 reasons.");
  expect(text).toContain("A retry would meet the limit of cost again");
});

it("jobs are filtered by time, cost, duration and runs", async () => {
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);

  expect(await ids(`since=${tomorrow}`)).toEqual([]);
  expect(await ids(`until=${tomorrow}`)).toHaveLength(5);
  expect(await ids("min_cost=0.5")).toEqual([]);
  expect(await ids("min_runs=0&min_duration=0")).toHaveLength(5);
  expect(await ids("min_runs=9")).toEqual([]);
  for (const wrong of ["min_cost=-1", "since=monday", "failure=x"])
    expect([wrong, (await server.request(`/admin/api/jobs?${wrong}`)).status]).toEqual([wrong, 422]);
  const form = await page("jobs?min_cost=0.5&status=failed");
  expect(form).toMatch(/name="min_cost" value="0\.5"/);
  expect(form.match(/name="min_cost"/g)).toHaveLength(1);
});

it("each reason says when its jobs failed, and whether it is new; the navigation counts the failures of a day", async () => {
  const answer = await server.request("/admin/api/failures?days=1");
  const { items } = (await answer.json()) as { items: { count: number; trend: number[]; state: string }[] };
  const html = await page("failures?days=1");

  expect(items.length).toBeGreaterThan(1);
  for (const { count, trend, state } of items) {
    expect([trend.length, trend.reduce((sum, one) => sum + one, 0), state]).toEqual([14, count, "new"]);
  }
  const total = items.reduce((sum, { count }) => sum + count, 0);
  expect(html.match(/<svg class="spark"/g)).toHaveLength(items.length);
  expect(html).toMatch(new RegExp(`Failures</span><span class="count alert">${total}<`));
});

it("a download has exactly the jobs that match, in their order, and no formula", async () => {
  const csv = await server.request("/admin/api/jobs/export?status=failed&sort=name&format=csv");
  const json = await server.request("/admin/api/jobs/export?status=failed&sort=-name&format=json");

  const lines = (await csv.text()).trimEnd().split("\r\n");
  expect(csv.headers.get("content-disposition")).toBe('attachment; filename="jobs.csv"');
  expect(lines[0]).toMatch(/^id,name,agent_name,agent_version,status,stop_reason,error,failure,/);
  expect(lines.slice(1).map((line) => line.split(",")[0])).toEqual(["again", "dear", "lucky", "strange"]);
  expect(lines.find((line) => line.startsWith("dear,"))).toContain('"too dear;=1+1"');
  expect(lines.at(-1)).toContain(`"'=HYPERLINK(""http://x"",""<b>"")"`);
  const rows = (await json.json()) as { id: string }[];
  expect(rows.map(({ id }) => id)).toEqual(["strange", "lucky", "dear", "again"]);
  const none = await server.request("/admin/api/jobs/export?search=nothing&format=json");
  expect(await none.json()).toEqual([]);
});

it("a retry of a reason then says how many failed again and why; jobs at a limit are skipped", async () => {
  const failure = failed(REFUSED);
  const form = new URLSearchParams({ kind: "jobs", action: "retry", all: "1", query: "status=failed" });
  const everything = await list("jobs?status=failed");
  const preview = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "retry", ids: everything.items.map(({ id }) => id) },
  });
  expect(await preview.json()).toMatchObject({ count: 3, left_out: 1 });

  form.set("query", `status=failed&failure=${failure}`);
  const headers = { "content-type": "application/x-www-form-urlencoded", origin: server.url };
  const posted = await server.request("/admin/bulk", {
    method: "POST",
    body: form.toString(),
    headers,
    redirect: "manual",
  });
  const path = posted.headers.get("location")!;
  const shown = (await (await server.request(`/admin/api${path.replace("/admin", "")}`)).json()) as {
    hash: string;
  };
  await server.request(`/admin/api${path.replace("/admin", "")}/run`, { json: { hash: shown.hash } });

  const outcome = () => page(path.replace("/admin/", ""));
  await expect.poll(outcome).toContain("2 jobs retried: 1 completed, 1 failed again.");
  expect(await outcome()).toContain(`1 × connect ECONNREFUSED 10.0.0.99:80`);
  expect(await ids(`failure=${failure}`)).toEqual(["again"]);
});

it("the dashboard says why jobs failed, how long they take and what they cost, over a time that can be chosen", async () => {
  const answer = await server.request("/admin/api/dashboard?range=7d");
  const { well } = (await answer.json()) as { well: Wellbeing };
  const html = await (await server.request("/admin/?range=1h", { headers: { accept: "text/html" } })).text();

  const { items } = (await (await server.request("/admin/api/failures?days=7")).json()) as List;
  expect(well).toMatchObject({ range: "7d", p50: expect.any(Number), p95: expect.any(Number) });
  expect(well.failures.map(({ failure, count }) => [failure, count])).toEqual(
    items.map(({ failure, count }) => [failure, count]),
  );
  const inColumns = well.columns.reduce((sum, { counts }) => sum + counts.failed, 0);
  expect(inColumns).toBe(well.failed);
  expect(html).toMatch(/Failures, last hour/);
  expect(html).toMatch(/<b class="">\d+(\.\d)?%<\/b>/);
  expect(html).toMatch(/Median duration[\s\S]*p95 /);
  expect(html).not.toMatch(/last 1 hour/);
  expect(html).toContain('hx-get="/admin/api/dashboard?range=1h"');
  expect(html).toMatch(/Health<\/span> The service is well/);
  expect(html.includes("&lt;b&gt;")).toBe(true);
  expect((await server.request("/admin/api/dashboard?range=2h")).status).toBe(422);
});

it("a deleted case is restored, or deleted permanently, by the page's forms", async () => {
  const cookie = await signIn(server, "Ada");
  const show = async (path: string, more = "") => {
    const headers = { cookie: `${cookie}${more}`, accept: "text/html" };
    return (await fetch(server.url + path, { headers })).text();
  };
  await seedJob(server.service, { id: "holder", status: "completed" });
  await seedCase(server.service, { job: "holder", ref: "lost-case" });
  expect(await show("/admin/cases/lost-case/delete")).toContain("It can be restored for 30 days.");

  const deleted = await postForm(server, "/admin/cases/lost-case/delete", {}, { cookie });
  const flash = deleted.headers.getSetCookie().find((one) => one.startsWith("svc-flash="))!;
  expect(await show("/admin/cases", `; ${flash.split(";")[0]}`)).toContain(
    '<form method="post" action="/admin/deleted-cases/lost-case/restore">',
  );
  const list = await show("/admin/deleted-cases?search=lost");
  expect(list).toContain("holder");
  expect(list).toMatch(/says &quot;Ada&quot;/);
  expect(await show("/admin/deleted-cases?search=nothing")).toContain("No deleted case matches.");

  const restored = await postForm(server, "/admin/deleted-cases/lost-case/restore", {}, { cookie });
  expect(restored.headers.get("location")).toBe("/admin/cases/lost-case");
  expect(await show("/admin/jobs/holder")).toContain("lost-case");

  await postForm(server, "/admin/cases/lost-case/delete", {}, { cookie });
  expect(await show("/admin/deleted-cases/lost-case/erase")).toContain("Delete this case permanently?");
  await postForm(server, "/admin/deleted-cases/lost-case/erase", {}, { cookie });
  expect(await show("/admin/deleted-cases")).toContain("No case was deleted.");
});

it("a deleted job is restored, or deleted permanently, by the page's forms", async () => {
  const cookie = await signIn(server, "Ada");
  const show = async (path: string, more = "") => {
    const headers = { cookie: `${cookie}${more}`, accept: "text/html" };
    return (await fetch(server.url + path, { headers })).text();
  };
  await seedJob(server.service, { id: "oops", status: "completed", name: "Oops <b>" });
  await seedCase(server.service, { job: "oops", ref: "oops-1" });
  expect(await show("/admin/jobs/oops/delete")).toContain("It can be restored for 30 days.");

  const deleted = await postForm(server, "/admin/jobs/oops/delete", {}, { cookie });
  const flash = deleted.headers.getSetCookie().find((one) => one.startsWith("svc-flash="))!;
  const after = await show("/admin/jobs", `; ${flash.split(";")[0]}`);
  const list = await show("/admin/deleted?search=oops");
  expect(after).toContain('<form method="post" action="/admin/deleted/oops/restore">');
  expect(list).toContain("Oops &lt;b&gt;");
  expect(list).toMatch(/says &quot;Ada&quot;/);
  expect(await show("/admin/deleted?search=nothing")).toContain("No deleted job matches.");

  const restored = await postForm(server, "/admin/deleted/oops/restore", {}, { cookie });
  expect(restored.headers.get("location")).toBe("/admin/jobs/oops");
  expect(await show("/admin/jobs/oops")).toContain("oops-1");

  await postForm(server, "/admin/jobs/oops/delete", {}, { cookie });
  expect(await show("/admin/deleted/oops/erase")).toContain("Delete this job permanently?");
  await postForm(server, "/admin/deleted/oops/erase", {}, { cookie });
  expect(await show("/admin/deleted")).toContain("No job was deleted.");
});

it("a bulk deletion is undone on its page: what it deleted is restored, and only that", async () => {
  const cookie = await signIn(server, "Ada");
  for (const id of ["bulk-1", "bulk-2", "bulk-0"])
    await seedJob(server.service, { id, status: "completed", agent: "bulk" });
  await server.request("/admin/api/jobs/bulk-0", { method: "DELETE" });
  const order = new URLSearchParams({ kind: "jobs", action: "delete", all: "1", query: "agent_name=bulk" });
  const send = async (path: string, form: object = {}) =>
    (await postForm(server, path, form as Record<string, string>, { cookie })).headers.get("location")!;
  const show = async (path: string) =>
    (await fetch(server.url + path, { headers: { cookie, accept: "text/html" } })).text();

  const path = await send("/admin/bulk", order);
  const preview = await show(path);
  const early = await postForm(server, `${path}/undo`, {}, { cookie, accept: "application/json" });
  await send(`${path}/run`, { hash: /name="hash" value="([^"]+)"/.exec(preview)![1]! });
  await expect.poll(() => show(path)).toContain(`action="${path}/undo"`);
  expect(await ids("agent_name=bulk")).toEqual([]);
  const undo = await send(`${path}/undo`);
  await expect.poll(() => show(undo)).toContain("2 of 2 done.");

  expect(preview).toContain(
    "Each is deleted with everything that belongs to it. The selection is fixed. It can be restored for 30 days.",
  );
  expect(early.status).toBe(409);
  expect(await ids("agent_name=bulk")).toEqual(["bulk-1", "bulk-2"]);
  await server.request("/admin/api/jobs/bulk-0?permanent=true", { method: "DELETE" });
});

it("jobs that ended at a limit are resumed together with a raised one, except those that it would end again", async () => {
  const cookie = await signIn(server, "Ada");
  const start = async (id: string, max_cost: number) => {
    const job_context = { job_id: id, job_instructions: { max_cost } };
    await server.request("/agents/spender/jobs", { json: { job_context }, headers: { prefer: "wait=30" } });
  };
  await Promise.all([start("spender-1", 1), start("spender-2", 1), start("spender-3", 2)]);
  const filter = { agent_name: "spender", stop_reason: "max_cost" };
  const preview = async (limits: object, more = {}) => {
    const json = { kind: "jobs", action: "resume", filter, limits, ...more };
    const answer = await server.request("/admin/api/bulk", { json });
    return [answer.status, ((await answer.json()) as { count?: number }).count];
  };
  const { items } = await list("failures");
  const group = items.find((one) => one.stop_reason === "max_cost" && one.count > 1)!;
  const failures = await page("failures");

  expect(group).toMatchObject({ limit: 2 });
  expect(failures).toMatch(/name="limit.max_cost" value="4" min="0" step="any"/);
  expect(await preview({ max_cost: 2 })).toEqual([201, 2]);
  expect(await preview({ max_cost: 1 })).toEqual([201, 0]);
  expect(await preview({ max_cases: 9 })).toEqual([201, 0]);
  expect(await preview({})).toEqual([422, undefined]);
  expect(await preview({ max_cots: 9 })).toEqual([422, undefined]);
  expect(await preview({ max_cost: 9 }, { action: "retry" })).toEqual([422, undefined]);

  const query = `status=failed&failure=${group.failure}`;
  const form = { kind: "jobs", action: "resume", all: "1", query, "limit.max_cost": "4" };
  const path = (await postForm(server, "/admin/bulk", form, { cookie })).headers.get("location")!;
  const show = async () =>
    (await fetch(server.url + path, { headers: { cookie, accept: "text/html" } })).text();
  const text = await show();
  await postForm(server, `${path}/run`, { hash: /name="hash" value="([^"]+)"/.exec(text)![1]! }, { cookie });

  expect(text).toContain("<dt>Max cost</dt><dd>$4.00</dd>");
  await expect.poll(show).toContain("3 jobs retried: 3 completed, 0 failed again.");
});
