import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it, vi } from "vitest";
import { holdJob } from "../../src/core/entities/change-job.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { ACCESS } from "../../src/core/service/tokens.ts";
import { seedCase, seedJob } from "./_seed.ts";
import { postForm, signIn } from "./_sign-in.ts";

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [
        { name: "topic", required: true },
        { name: "times", field_type: "IntegerField", default: 1 },
      ],
      async run({ job }) {
        const item = await job.openCase({ id: `${job.id}-1`, name: "Case" });
        const answer = await item.ask({
          question: "Continue?",
          fields: [{ name: "yes", field_type: "BooleanField", required: true }],
        });
        await item.close(answer);
        return { message: "done" };
      },
    },
  },
});

const start = () => testServer({ agents: [asker] });
const json = async (response: Response) => (await response.json()) as Record<string, unknown>;
const statusOf = async (server: TestServer, id: string) => (await server.service.get(JOBS).get(id)).status;

async function startJob(server: TestServer, id: string): Promise<void> {
  const job_context = {
    workspace_id: "w",
    job_id: id,
    started_by: "t",
    started_at: "2026-01-01T00:00:00Z",
    mission_id: "m",
    mission_name: "m",
  };
  await server.request("/agents/asker/jobs", { json: { job_context, job_fields: { topic: "x" } } });
  await vi.waitFor(async () => expect(await statusOf(server, id)).toBe("awaiting"), { timeout: 60_000 });
}

it("a failed form is reported to a program as an error, to a person on the page", async () => {
  await using server = await start();
  await startJob(server, "a");
  const cookie = await signIn(server, "Ada");
  const send = (accept: string) => postForm(server, "/admin/jobs/a/retry", {}, { cookie, accept });

  const program = await send("application/json");
  const person = await send("text/html");

  expect([program.status, person.status]).toEqual([409, 303]);
  expect(await json(program)).toMatchObject({ error_type: "invalid_transition", status_code: 409 });
});

it.each([
  ...["stop", "retry", "continue", "restart", "resume", "fork", "status", "revoke-tokens", "delete"].map(
    (action) => ["jobs", "named", action, /<b><bdi>Refund HL-9100<\/bdi><\/b>.*greeter · .*named/],
  ),
  ...["status", "delete"].map((action) => [
    ...["cases", "named-1", action, /<b><bdi>Order HL-9100<\/bdi><\/b>.*named · .*named-1/],
  ]),
] as [string, string, string, RegExp][])(
  "the confirmation of %s/%s/%s names what it is about",
  async (kind, id, action, subject) => {
    await using server = await start();
    await seedJob(server.service, { id: "named", name: "Refund HL-9100", status: "in_progress" });
    await seedCase(server.service, { job: "named", ref: "named-1", name: "Order HL-9100" });

    const response = await server.request(`/admin/${kind}/${id}/${action}`, {
      headers: { accept: "text/html" },
    });
    expect([response.status, (await response.text()).replaceAll("\n", "")]).toEqual([
      200,
      expect.stringMatching(subject),
    ]);
  },
);

it("a job with more cases than its page shows says how many there are, and where", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "many", status: "in_progress" });
  for (let n = 0; n < 54; n++)
    await seedCase(server.service, { job: "many", ref: `case-${n}`, close: { n } });
  await seedCase(server.service, { job: "many", ref: "open", question: "Pay?" });
  await seedJob(server.service, { id: "few", status: "in_progress" });
  await seedCase(server.service, { job: "few", ref: "only" });
  const textOf = async (id: string) => {
    const response = await server.request(`/admin/jobs/${id}`, { headers: { accept: "text/html" } });
    return response.text();
  };

  expect(await textOf("many")).toMatch(
    /51 of 55 cases: the first ones, and the last ones that failed or are open<\/span><a class="btn small" href="\/admin\/cases\?job_id=many">All cases of this job/,
  );
  expect(await textOf("few")).not.toContain("All cases of this job");
});

it.each([
  [undefined, "They can be restored for 30 days after they were deleted."],
  ["1d", "They can be restored for 1 day after they were deleted."],
  ["keep", "They can be restored at any time."],
  [0, "What is deleted now is deleted permanently."],
] as const)(
  "with deletedRetention %s, lists of what was deleted say how long it can be restored",
  async (kept, text) => {
    await using server = await testServer({
      agents: [asker],
      ...(kept !== undefined && { deletedRetention: kept }),
    });
    for (const path of ["deleted", "deleted-cases"]) {
      const page = await server.request(`/admin/${path}`, { headers: { accept: "text/html" } });
      expect(await page.text()).toContain(`<p>${text}</p>`);
    }
  },
);

it("who may not decide about held jobs, or start one, is not asked to", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "crashed", status: "in_progress" });
  await server.service
    .get(LEDGER)
    .write((unit) => holdJob(unit, "crashed", { reason: "crash_loop", error: "It ended three times." }));
  const pageOf = async (role: "operator" | "viewer", path: string) => {
    const { key } = await server.service.get(ACCESS).add({ name: role, role }, { kind: "key" });
    const response = await server.request(path, { key, headers: { accept: "text/html" } });
    return response.text();
  };

  const decides = (html: string) => /class="st st-held">Held<.*?<a [^>]*>(\w+)<\/a>/s.exec(html)?.[1];
  expect(decides(await pageOf("operator", "/admin/"))).toBe("Decide");
  expect(decides(await pageOf("viewer", "/admin/"))).toBe("Look");
  await using empty = await start();
  for (const [role, text] of [
    ["operator", "Start one from an agent"],
    ["viewer", "Jobs appear when somebody starts them."],
  ] as const) {
    const { key } = await empty.service.get(ACCESS).add({ name: role, role }, { kind: "key" });
    const response = await empty.request("/admin/jobs", { key, headers: { accept: "text/html" } });
    expect(await response.text()).toContain(text);
  }
});

it("a status is set from any status, by name and in the history", async () => {
  await using server = await start();
  await startJob(server, "a");
  const cookie = await signIn(server, "Ada");

  const changed = await server.request("/admin/api/jobs/a/status", { json: { status: "completed" } });
  const form = await postForm(server, "/admin/jobs/a/status", { status: "failed" }, { cookie });
  const wrong = await server.request("/admin/api/jobs/a/status", { json: { status: "done" } });
  const missing = await server.request("/admin/api/jobs/none/status", { json: { status: "failed" } });
  const page = await (
    await server.request("/admin/jobs/a?tab=history", { headers: { accept: "text/html" } })
  ).text();

  expect(await json(changed)).toMatchObject({ id: "a", status: "completed" });
  expect([form.status, form.headers.get("location")]).toEqual([303, "/admin/jobs/a"]);
  expect([wrong.status, missing.status]).toEqual([422, 404]);
  expect(await statusOf(server, "a")).toBe("failed");
  expect(page).toMatch(/by session [\w-]{6}, says &quot;Ada&quot;/);
});

it("deleting a job deletes its cases; deleting a case removes it from its job", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "in_progress" });
  await seedCase(server.service, { job: "a", ref: "a-1" });
  await seedCase(server.service, { job: "a", ref: "a-2" });

  const item = await json(await server.request("/admin/api/cases/a-1", { method: "DELETE" }));
  const left = await json(await server.request("/admin/api/jobs/a"));
  const job = await json(await server.request("/admin/api/jobs/a", { method: "DELETE" }));

  expect(item).toMatchObject({ id: "a-1" });
  expect(left.case_ids).toEqual(["a-2"]);
  expect(job).toMatchObject({ id: "a", deleted_cases: 1 });
  expect((await server.request("/admin/api/cases/a-2")).status).toBe(404);
});

it("a question is answered once: the second answer is reported as late", async () => {
  await using server = await start();
  await startJob(server, "a");
  const cookie = await signIn(server);
  const answer = { answer: { yes: true } };

  const incomplete = await postForm(server, "/admin/cases/a-1/answer", { question_id: "0" }, { cookie });
  const first = await server.request("/admin/api/cases/a-1/answer", { json: answer });
  const second = await server.request("/admin/api/cases/a-1/answer", { json: answer });

  expect(incomplete.status).toBeGreaterThanOrEqual(409);
  expect([first.status, second.status]).toEqual([200, 409]);
  await vi.waitFor(async () => expect(await statusOf(server, "a")).toBe("completed"), { timeout: 60_000 });
});

it("the start form shows problems beside each field, and starts one job if sent twice", async () => {
  await using server = await start();
  const cookie = await signIn(server, "Ada");
  const send = (fields: Record<string, string>) =>
    postForm(server, "/admin/agents/asker/start", fields, { cookie });

  const wrong = await send({ job_id: "a", "f.times": "many", "f.max_cost": "-1" });
  const text = await wrong.text();
  const right = { job_id: "a", "f.topic": "x", "f.times": "2", "f.max_cost": "1.5" };
  const [first, second] = [await send(right), await send(right)];
  const job = await server.service.get(JOBS).get("a");

  expect(wrong.status).toBe(422);
  expect(text.match(/class="problem"/g)).toHaveLength(3);
  expect(text).toContain('value="many"');
  expect([first.status, first.headers.get("location")]).toEqual([303, "/admin/jobs/a"]);
  expect(second.status).toBeLessThan(500);
  expect(job).toMatchObject({ job_fields: { topic: "x", times: 2 } });
  expect(job.job_context.job_instructions).toMatchObject({ max_cost: 1.5 });
  expect(job.job_context.started_by).toContain("Ada");
  expect((await server.service.get(JOBS).list()).total).toBe(1);
});

it("a bulk action changes exactly the entities of its preview", async () => {
  await using server = await start();
  for (const id of ["a", "b", "c"]) await seedJob(server.service, { id, status: "failed" });
  await seedJob(server.service, { id: "d", status: "completed" });

  const preview = await json(
    await server.request("/admin/api/bulk", {
      json: { kind: "jobs", action: "delete", filter: { status: "failed" } },
    }),
  );
  await seedJob(server.service, { id: "later", status: "failed" });
  const path = `/admin/api/bulk/${String(preview.id)}`;
  const wrong = await server.request(`${path}/run`, { json: { hash: "another" } });
  const run = await server.request(`${path}/run`, { json: { hash: preview.hash } });
  await expect.poll(async () => json(await server.request(path))).toMatchObject({ state: "done", done: 3 });
  const again = await server.request(`${path}/run`, { json: { hash: preview.hash } });
  const left = await server.service.get(JOBS).list({ sort: "id" });

  expect(preview).toMatchObject({ count: 3, state: "preview", sample: ["a", "b", "c"], left_out: 0 });
  expect([wrong.status, run.status, again.status]).toEqual([422, 202, 409]);
  expect(left.items.map(({ id }) => id)).toEqual(["d", "later"]);
});

it("a preview skips what the action cannot apply to, and says how many", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "failed" });
  await seedJob(server.service, { id: "b", status: "completed" });

  const preview = await json(
    await server.request("/admin/api/bulk", { json: { kind: "jobs", action: "retry", ids: ["a", "b"] } }),
  );
  const nothing = await server.request("/admin/api/bulk", { json: { kind: "jobs", action: "retry" } });
  const cases = await server.request("/admin/api/bulk", {
    json: { kind: "cases", action: "stop", ids: ["a"] },
  });

  expect(preview).toMatchObject({ count: 1, left_out: 1, sample: ["a"] });
  expect([nothing.status, cases.status]).toEqual([422, 422]);
});

it.each([
  [{ filter: { statuss: "failed" } }, "statuss"],
  [{ filter: { status: "failed", before: "2026-11-10" } }, "before"],
  [{ filters: { status: "failed" } }, "filters"],
  [{ filter: {} }, "all"],
  [{ filter: { search: "" } }, "all"],
  [{ filter: { status: "failed", limit: 10 } }, "limit"],
  [{ filter: { status: "failed", limit: "10" } }, "limit"],
  [{ filter: { status: "failed", skip: 5 } }, "skip"],
  [{ filter: { sort: "name" } }, "sort"],
  [{ filter: { status: "failed" }, ids: ["a"] }, "ids"],
])("a bulk selection of %j is refused with the cause", async (selection, name) => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "failed" });

  for (const action of ["delete", "stop", "retry"]) {
    const response = await server.request("/admin/api/bulk", {
      json: { kind: "jobs", action, ...selection },
    });

    expect(response.status).toBe(422);
    expect((await json(response)).detail).toContain(name);
  }
});

it("the filter of a bulk action takes amounts as numbers and as texts", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "failed" });
  const countOf = async (filter: object) => {
    const json = { kind: "jobs", action: "retry", filter };
    const response = await server.request("/admin/api/bulk", { json });
    return ((await response.json()) as { count: number }).count;
  };

  for (const amount of [0, "0"]) {
    const filter = { min_cost: amount, min_duration: amount, min_runs: amount };
    expect([amount, await countOf(filter)]).toEqual([amount, 1]);
  }
  expect([await countOf({ min_cost: 1 }), await countOf({ min_cost: "1" })]).toEqual([0, 0]);
});

it("an unknown filter of a list is distinguished from an invalid value", async () => {
  await using server = await start();
  const select = async (filter: object) =>
    (await json(await server.request("/admin/api/bulk", { json: { kind: "jobs", action: "stop", filter } })))
      .detail;

  expect(await select({ statuss: "failed" })).toBe("statuss is not known: did you mean status?");
  expect(await select({ status: "broken" })).toMatch(/^status must be one of /);
});

it("all matches of a list are selected from its page, in any sort order and on any page", async () => {
  await using server = await start();
  for (const id of ["a", "b"]) await seedJob(server.service, { id, status: "failed" });
  await seedJob(server.service, { id: "c", status: "completed" });

  const query = "status=failed&sort=name&limit=1&skip=1&refresh=1";
  const answer = await postForm(
    server,
    "/admin/bulk",
    { kind: "jobs", action: "delete", all: "1", query },
    {
      cookie: await signIn(server),
    },
  );
  const id = /[^/]+$/.exec(answer.headers.get("location") ?? "")?.[0];

  expect(await json(await server.request(`/admin/api/bulk/${id}`))).toMatchObject({ count: 2 });
});

it("every job is selected only on explicit request", async () => {
  await using server = await start();
  for (const id of ["a", "b"]) await seedJob(server.service, { id, status: "failed" });

  const preview = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "delete", filter: {}, all: true },
  });

  expect(await json(preview)).toMatchObject({ count: 2 });
});

it("an aborted preview cannot be applied", async () => {
  await using server = await start();
  await seedJob(server.service, { id: "a", status: "failed" });
  const preview = await json(
    await server.request("/admin/api/bulk", { json: { kind: "jobs", action: "delete", ids: ["a"] } }),
  );
  const path = `/admin/api/bulk/${String(preview.id)}`;

  await server.request(`${path}/abort`, { method: "POST" });
  const run = await server.request(`${path}/run`, { json: { hash: preview.hash } });

  expect(run.status).toBe(409);
  expect(await statusOf(server, "a")).toBe("failed");
});
