// @long
import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/*
 * What operators who see a part do to schedules, to many jobs, to deleted ones and to agents: exactly theirs.
 */

const agent = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ fails: v.optional(v.boolean(), false) }),
        async run({ job, fields: { fails } }) {
          const item = await job.openCase({ id: `case-${job.id}`, name: `case of ${job.id}` });
          await item.close();
          if (fails) throw new Error("it broke");
        },
      },
    },
  });
const SLUGS = ["seen", "hidden"];
const HOLDERS = [
  { name: "team", role: "admin", agents: ["seen"] },
  { name: "other-team", role: "admin", agents: ["hidden"] },
  { name: "customer", role: "admin", workspace: "acme" },
  { name: "home", role: "operator", workspace: "local" },
  { name: "program", role: "starter" },
  { name: "clerk", role: "answerer" },
] as const;
type Name = (typeof HOLDERS)[number]["name"];
const keyOf = (name: Name) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  server = await testServer({
    agents: [agent("Seen"), agent("Hidden")],
    access: { keys },
    schedules: SLUGS.map((slug) => ({ id: `of-${slug}`, cron: "@yearly", agent: slug })),
  });
});
afterAll(() => server[Symbol.asyncDispose]());

async function ask<T = Record<string, unknown>>(name: Name | undefined, path: string, init: object = {}) {
  const key = name === undefined ? server.key : keyOf(name);
  const headers = { accept: "application/json" };
  const response = await server.request(path, { key, headers, redirect: "manual", ...init });
  const text = await response.text();
  return { status: response.status, text, json: <U = T>() => JSON.parse(text) as U };
}
/** By form on pages, else as JSON. */
const post = (name: Name | undefined, path: string, json: Record<string, unknown> = {}) =>
  path.startsWith("/admin/") && !path.startsWith("/admin/api/")
    ? ask(name, path, { method: "POST", body: new URLSearchParams(json as Record<string, string>) })
    : ask(name, path, { method: "POST", json });

async function start(id: string, slug: string, workspace: string, fails = false): Promise<string> {
  const started = await post(undefined, `/agents/${slug}/jobs`, {
    job_context: { job_id: id, workspace_id: workspace },
    job_fields: { fails },
  });
  if (started.status !== 202) throw new Error(started.text);
  const status = async () => (await server.service.get(JOBS).get(id)).status;
  await expect.poll(status).toBe(fails ? "failed" : "completed");
  return id;
}

/** Two answers that differ only in the id that was asked for. */
function expectSame(one: Awaited<ReturnType<typeof ask>>, id: string, other: typeof one, none: string): void {
  const plain = (text: string) => text.replaceAll(/"timestamp":"[^"]+"/g, "");
  expect([one.status, plain(one.text).replaceAll(id, none)]).toEqual([other.status, plain(other.text)]);
}

describe("schedules", () => {
  const SEES: readonly (readonly [Name, readonly string[]])[] = [
    ["team", ["of-seen"]],
    ["other-team", ["of-hidden"]],
    ["customer", []],
    ["home", ["of-seen", "of-hidden"]],
    ["program", []],
    ["clerk", []],
  ];

  it.each(SEES)("are those whose jobs %s sees all: %j", async (name, ids) => {
    const api = (await ask(name, "/admin/api/schedules")).json<{ items: { id: string }[] }>();
    const machine = (await ask(name, "/schedules")).json<{ id: string }[]>();
    const page = await ask(name, "/admin/schedules", { headers: { accept: "text/html" } });

    expect(api.items.map(({ id }) => id)).toEqual(ids);
    expect(machine.map(({ id }) => id)).toEqual(ids);
    expect(SLUGS.filter((slug) => page.text.includes(`of-${slug}`)).map((slug) => `of-${slug}`)).toEqual(ids);
    for (const id of ["of-seen", "of-hidden"]) {
      const shown = await ask(name, `/schedules/${id}`);
      if (ids.includes(id)) expect(shown.status).toBe(200);
      else expectSame(shown, id, await ask(name, "/schedules/of-none"), "of-none");
    }
  });

  it("of others are neither run, paused nor resumed, and the answers are those about none", async () => {
    const before = (await ask(undefined, "/schedules/of-hidden")).text;
    for (const act of ["run", "pause", "resume"])
      for (const path of ["/schedules", "/admin/api/schedules", "/admin/schedules"])
        for (const name of ["team", "customer"] as const)
          expectSame(
            await post(name, `${path}/of-hidden/${act}`),
            "of-hidden",
            await post(name, `${path}/of-none/${act}`),
            "of-none",
          );

    expect((await ask(undefined, "/schedules/of-hidden")).text).toBe(before);
  });

  it("of its own are run, paused and resumed", async () => {
    const ran = await post("team", "/schedules/of-seen/run");
    const paused = await post("home", "/admin/api/schedules/of-seen/pause");
    const resumed = await post("team", "/schedules/of-seen/resume");

    expect([ran.status, paused.status, resumed.status]).toEqual([202, 200, 200]);
    expect(paused.json()).toMatchObject({ paused: true });
    expect(resumed.json()).toMatchObject({ paused: false, last_job: { id: ran.json<{ id: string }>().id } });
  });

  it("say nothing of a job that has the same Idempotency-Key, or that was the last one of another agent", async () => {
    const headers = { "idempotency-key": "the-key" };
    const first = await ask(undefined, "/schedules/of-hidden/run", { method: "POST", headers });
    const { id } = first.json<{ id: string }>();
    const second = await ask("team", "/schedules/of-seen/run", { method: "POST", headers });
    const schedules = server.service.get(STORE).table("Schedule");
    const own = (await schedules.get("of-seen"))!.last_job_id;
    await schedules.change("of-seen", (row) => ({ ...row, last_job_id: id }));
    const shown = await ask("team", "/schedules/of-seen");
    await schedules.change("of-seen", (row) => ({ ...row, last_job_id: own }));

    expect([second.status, shown.json()]).toEqual([409, expect.objectContaining({ last_job: null })]);
    expect(second.text + shown.text).not.toContain(id);
  });
});

describe("actions on many jobs", () => {
  interface Bulk {
    readonly id: string;
    readonly hash: string;
    readonly count: number;
    readonly left_out: number;
    readonly cost: number;
    readonly state: string;
    readonly sample: readonly string[];
  }
  const preview = async (name: Name | undefined, body: Record<string, unknown>) => {
    const answer = await post(name, "/admin/api/bulk", body);
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.json<Bulk>();
  };
  const run = async (name: Name | undefined, { id, hash: of }: Bulk) => {
    const answer = await post(name, `/admin/api/bulk/${id}/run`, { hash: of });
    expect(answer.status).toBe(202);
    await expect.poll(async () => (await ask(name, `/admin/api/bulk/${id}`)).json<Bulk>().state).toBe("done");
  };

  it("are about its jobs only, whatever is named or matches", async () => {
    await start("bulk-seen", "seen", "acme", true);
    await start("bulk-hidden", "hidden", "other", true);
    const ids = ["bulk-seen", "bulk-hidden"];
    const rows = await server.service.get(STORE).table("Job").get("bulk-hidden");

    for (const name of ["team", "customer"] as const)
      for (const of of [
        { ids },
        { filter: { search: "bulk-" } },
        { all: true, filter: { status: "failed" } },
      ]) {
        const shown = await preview(name, { kind: "jobs", action: "delete", ...of });
        expect([shown.sample, shown.count, shown.left_out]).toEqual([["bulk-seen"], 1, 0]);
      }
    const cases = ids.map((id) => `case-${id}`);
    const shown = await preview("team", { kind: "cases", action: "delete", ids: cases });
    expect(shown.sample).toEqual(["case-bulk-seen"]);
    await run("team", await preview("team", { kind: "jobs", action: "restart", ids }));

    expect(await server.service.get(STORE).table("Job").get("bulk-hidden")).toEqual(rows);
  });

  it("of others do not exist, and are neither run, aborted nor undone", async () => {
    await start("made-by-others", "hidden", "other", true);
    const theirs = await preview("other-team", { kind: "jobs", action: "delete", ids: ["made-by-others"] });
    const none = "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f";

    for (const name of ["team", "customer", "home"] as const) {
      for (const path of ["/admin/api/bulk", "/admin/bulk"]) {
        expectSame(
          await ask(name, `${path}/${theirs.id}`),
          theirs.id,
          await ask(name, `${path}/${none}`),
          none,
        );
        for (const act of ["run", "abort", "undo"]) {
          const body = act === "run" ? { hash: theirs.hash } : {};
          const [one, other] = [
            await post(name, `${path}/${theirs.id}/${act}`, body),
            await post(name, `${path}/${none}/${act}`, body),
          ];
          expect(one.status).toBeGreaterThanOrEqual(400);
          expectSame(one, theirs.id, other, none);
        }
      }
    }

    expect((await ask("other-team", `/admin/api/bulk/${theirs.id}`)).json<Bulk>().state).toBe("preview");
  });

  it("do nothing to a job that is no longer seen when they run", async () => {
    await start("moved-away", "seen", "acme", true);
    const shown = await preview("customer", { kind: "jobs", action: "delete", ids: ["moved-away"] });
    await server.service
      .get(STORE)
      .table("Job")
      .change("moved-away", (job) => ({
        ...job,
        job_context: { ...job.job_context, workspace_id: "other" },
      }));
    await run("customer", shown);

    const after = (await ask("customer", `/admin/api/bulk/${shown.id}`)).json<{ failures: object }>();
    expect(after.failures).toEqual({ "moved-away": 'Job "moved-away" does not exist' });
    expect(await server.service.get(JOBS).find("moved-away")).toBeDefined();
  });

  it("of one caller do not displace what others have selected", async () => {
    await start("displaced", "seen", "acme", true);
    const body = { kind: "jobs", action: "delete", ids: ["displaced"] };
    const mine = await preview("team", body);
    for (let n = 0; n < 60; n++) await preview("customer", body);

    expect((await ask("team", `/admin/api/bulk/${mine.id}`)).status).toBe(200);
  });

  it("are undone by their maker", async () => {
    await start("undone", "seen", "acme");
    const shown = await preview("customer", { kind: "jobs", action: "delete", ids: ["undone"] });
    await run("customer", shown);
    expect(await server.service.get(JOBS).find("undone")).toBeUndefined();
    const undone = await post("customer", `/admin/api/bulk/${shown.id}/undo`);

    expect(undone.status).toBe(202);
    await expect.poll(() => server.service.get(JOBS).find("undone")).toMatchObject({ status: "completed" });
  });
});

describe("what was deleted", () => {
  const remove = (path: string) => ask(undefined, path, { method: "DELETE" });
  const listed = async (name: Name, kind: string) =>
    (await ask(name, `/admin/api/${kind}?limit=100`)).json<{ items: { id: string }[]; total: number }>();

  it("is listed, counted and searched for those who saw it, and restored and erased by them only", async () => {
    const OWN = { team: "gone-seen-local", customer: "gone-hidden-acme", home: "gone-seen-local" } as const;
    for (const slug of SLUGS)
      for (const workspace of ["local", "acme"]) {
        const id = await start(`gone-${slug}-${workspace}`, slug, workspace);
        await start(`kept-${slug}-${workspace}`, slug, workspace);
        await remove(`/admin/api/jobs/${id}`);
        await remove(`/admin/api/cases/case-kept-${slug}-${workspace}`);
      }
    const theirs = { team: /-seen-/, customer: /-acme$/, home: /-local$/ };
    const all = SLUGS.flatMap((slug) => ["local", "acme"].map((workspace) => `${slug}-${workspace}`));

    for (const [name, pattern] of Object.entries(theirs) as [keyof typeof theirs, RegExp][]) {
      const jobs = (await listed(name, "deleted")).items
        .map(({ id }) => id)
        .filter((id) => /^gone-/.test(id));
      const cases = await listed(name, "deleted-cases");
      expect(jobs.sort()).toEqual(
        all
          .map((of) => `gone-${of}`)
          .filter((id) => pattern.test(id))
          .sort(),
      );
      expect(cases.items.map(({ id }) => id).sort()).toEqual(
        all
          .map((of) => `case-kept-${of}`)
          .filter((id) => pattern.test(id))
          .sort(),
      );
      expect(cases.total).toBe(2);
      const searched = await ask(name, "/admin/api/deleted?search=gone-");
      expect(searched.json<{ total: number }>().total).toBe(2);
      const page = await ask(name, "/admin/deleted", { headers: { accept: "text/html" } });
      expect(all.filter((of) => page.text.includes(`gone-${of}`)).length).toBe(2);
      for (const of of all.filter((one) => !pattern.test(`-${one}`)))
        for (const [path, id] of [
          ["/admin/api/jobs/ID/restore", `gone-${of}`],
          ["/admin/api/cases/ID/restore", `case-kept-${of}`],
          ["/admin/api/cases/ID/restore", `case-gone-${of}`],
          ["/admin/deleted/ID/restore", `gone-${of}`],
          ["/admin/deleted-cases/ID/restore", `case-kept-${of}`],
          ...(name === "home"
            ? []
            : [
                ["/admin/deleted/ID/erase", `gone-${of}`],
                ["/admin/deleted-cases/ID/erase", `case-kept-${of}`],
              ]),
        ] as [string, string][]) {
          const answer = await post(name, path.replace("ID", id));
          expect(answer.status, `${name} ${path} ${id}`).toBe(404);
          expectSame(answer, id, await post(name, path.replace("ID", "none-such")), "none-such");
        }
    }
    for (const name of ["program", "clerk"] as const)
      for (const kind of ["deleted", "deleted-cases"])
        expect(await listed(name, kind)).toMatchObject({ items: [], total: 0 });

    for (const [name, id] of Object.entries(OWN) as [Name, string][]) {
      const restored = await post(name, `/admin/api/jobs/${id}/restore`);
      expect([restored.status, (await server.service.get(JOBS).find(id))?.id]).toEqual([200, id]);
      await remove(`/admin/api/jobs/${id}`);
    }
    expect((await post("team", "/admin/api/cases/case-kept-seen-acme/restore")).status).toBe(200);
    expect((await post("customer", "/admin/deleted/gone-hidden-acme/erase")).status).toBe(303);
    expect((await listed("customer", "deleted")).items.map(({ id }) => id)).not.toContain("gone-hidden-acme");
  });
});

it("an agent is paused and resumed by who sees all of its jobs", async () => {
  const act = async (name: Name, slug: string) => [
    (await post(name, `/admin/api/agents/${slug}/pause`)).status,
    (await post(name, `/admin/api/agents/${slug}/resume`)).status,
  ];
  const offers = async (name: Name) =>
    (await ask(name, "/admin/agents/seen", { headers: { accept: "text/html" } })).text.includes(
      "/seen/pause",
    );

  expect(await act("team", "seen")).toEqual([200, 200]);
  expect(await act("team", "hidden")).toEqual([404, 404]);
  expect(await act("customer", "seen")).toEqual([403, 403]);
  expect(await act("program", "seen")).toEqual([403, 403]);
  expect([await offers("team"), await offers("customer"), await offers("program")]).toEqual([
    true,
    false,
    false,
  ]);
});
