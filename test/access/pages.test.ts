// @long
import { hash } from "node:crypto";
import { defineAgent, defineChat } from "agent-control-service";
import { type AddedRoute, JOBS, ROUTER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { grants, type Role } from "../../src/core/models/access.ts";
import type { StoredCase } from "../../src/core/models/case.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import { greeter } from "../_setup.ts";

const COST = 0.25;
const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  budget: { month: 1000 },
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      fields: v.object({ to: v.optional(v.string()) }),
      async run({ job, fields: { to }, log }) {
        log.info(`log of ${job.id}`);
        const item = await job.openCase({ id: `case-${job.id}`, name: `title of ${job.id}` });
        await item.step("look", () => ({ evidence: `evidence of ${job.id}` }), { cost: COST });
        const question = `question of ${job.id}`;
        await item.ask({ question, fields: v.object({ fine: v.boolean() }), ...(to && { assignTo: to }) });
        await item.close();
        if (to === undefined) throw new Error(`error of ${job.id}`);
        return `done ${job.id}`;
      },
    },
  },
});
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });

interface Holder {
  readonly name: string;
  readonly role: Role;
  readonly agents?: readonly string[];
  readonly workspace?: string;
}
const HOLDERS: readonly Holder[] = [
  { name: "finance", role: "answerer" },
  { name: "legal", role: "answerer", workspace: "acme" },
  { name: "one", role: "starter" },
  { name: "two", role: "starter", workspace: "acme", agents: ["asker", "talker"] },
  { name: "acme", role: "operator", workspace: "acme" },
  { name: "owner", role: "admin", agents: ["asker"] },
  { name: "other", role: "viewer", workspace: "other" },
  { name: "watcher", role: "viewer" },
  { name: "whole", role: "operator" },
  { name: "boss", role: "admin" },
];
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
let jobs: readonly StoredJob[];
let cases: readonly StoredCase[];
let routes: readonly AddedRoute[];

beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  const schedules = [{ id: "yearly", cron: "@yearly", agent: asker, catchUp: "none" as const }];
  server = await testServer({ agents: [greeter, asker, talker], access: { keys }, schedules });
  routes = server.service.get(ROUTER).routes;
  // The same seed each time: a failure can be looked into.
  let seed = 11;
  const pick = <T>(from: readonly T[]): T => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    // The low bits repeat soon.
    return from[Math.floor(seed / 65536) % from.length]!;
  };
  for (let n = 0; n < 40; n++) {
    const starter = pick([undefined, "one", "two"] as const);
    const slug = pick(starter === "two" ? ["asker"] : ["greeter", "asker", "asker"]);
    const to = pick([undefined, "finance", "legal", "group:others"]);
    const workspace_id = pick(["acme", "other"]);
    const response = await server.request(`/agents/${slug}/jobs`, {
      key: starter ? keyOf(starter) : server.key,
      json: {
        job_context: { job_id: `job-${n}`, ...(starter !== "two" && { workspace_id }) },
        job_fields: slug === "greeter" ? { name: "Ada" } : { ...(to && { to }) },
      },
    });
    if (response.status !== 202) throw new Error(await response.text());
  }
  const open = { where: { status: ["stopped", "in_progress"] }, limit: 0 };
  await vi.waitFor(async () => expect((await server.service.get(JOBS).list(open)).total).toBe(0), 20_000);
  jobs = (await server.service.get(STORE).table("Job").list({ limit: 1000 })).items;
  cases = (await server.service.get(STORE).table("Case").list({ limit: 1000 })).items;
});
afterAll(() => server[Symbol.asyncDispose]());

const get = (name: string, path: string, accept = "text/html") =>
  server.request(path, { key: keyOf(name), headers: { accept }, redirect: "manual" });

/** The jobs whose record somebody sees, said in another way than the service does. */
function seesJob({ name, role, agents, workspace }: Holder, job: StoredJob): boolean {
  if (role === "answerer") return false;
  if (agents && !agents.includes(job.agent_name)) return false;
  if (workspace && job.job_context.workspace_id !== workspace) return false;
  return role !== "starter" || job.job_context.started_by === `key ${name}`;
}

function seesCase(holder: Holder, item: StoredCase): boolean {
  const job = jobs.find(({ id }) => id === item.job_id)!;
  if (holder.role !== "answerer") return seesJob(holder, job);
  const isAsked = item.status === "awaiting" && item.question?.assigned_to === holder.name;
  return isAsked && (!holder.workspace || job.job_context.workspace_id === holder.workspace);
}

const numbersIn = (text: string) =>
  new Set([...text.matchAll(/job-(\d+)(?!\d)/g)].map(([, n]) => `job-${n}`));
/** The number beside a page of the navigation. */
const badgeIn = (page: string, label: string) =>
  Number(
    new RegExp(`<nav class="nav"[\\s\\S]*?>${label}</span><span class="count alert">(\\d+)<`).exec(
      page,
    )?.[1] ?? 0,
  );
/** Addresses that a page leads to, and those that its forms are sent to. */
function exitsOf(page: string) {
  const all = (pattern: RegExp) =>
    [...new Set([...page.matchAll(pattern)].map(([, to]) => to!.replaceAll("&amp;", "&")))].filter((to) =>
      to.startsWith("/admin"),
    );
  return {
    links: all(/<a [^>]*?href="([^"]+)"/g),
    forms: all(/<form [^>]*?method="post"[^>]*? action="([^"]+)"/g),
    live: all(/data-live="([^"]+)"/g),
  };
}

function routeOf(method: string, path: string): AddedRoute {
  const found = routes.filter((route) => {
    const pattern = new RegExp(`^${route.path.replace(/\{[^}]+\}/g, "[^/]+")}$`);
    return route.method === method && pattern.test(path.split("?")[0]!);
  });
  // The one without a parameter is meant where two match.
  const best = found.sort((a, b) => a.path.split("{").length - b.path.split("{").length)[0];
  if (!best) throw new Error(`No route ${method} ${path}`);
  return best;
}

const PAGES = [
  ...["/admin/jobs?limit=100", "/admin/cases?limit=100", "/admin/inbox", "/admin/files", "/admin/find?q=job"],
  ...["/admin/find?q=of", "/admin/find", "/admin/agents", "/admin/agents/asker", "/admin/agents/greeter"],
  ...["/admin/jobs?status=failed", "/admin/api/jobs/export", "/admin/api/jobs/export?format=json"],
  ...["/admin/api/jobs?limit=1000", "/admin/api/cases?limit=1000", "/admin/api/inbox", "/admin/api/agents"],
  ...["/admin/api/find?q=job", "/admin/api/jobs/tabs", "/admin/api/cases/tabs", "/admin/no-such-page"],
  ...["/admin/", "/admin/api/dashboard?range=7d", "/admin/api/stats", "/admin/api/recent-activity"],
  ...[
    "/admin/failures",
    "/admin/api/failures?days=1",
    "/admin/models",
    "/admin/schedules",
    "/admin/events",
    "/admin/audit",
  ],
  ...["/admin/server", "/admin/deleted", "/admin/sessions", "/admin/console", "/admin/deliveries"],
  ...["/admin/agents/asker/start", "/admin/agents/talker/chat", "/admin/access"],
];

interface ExportedJob extends Pick<StoredJob, "id" | "agent_name" | "status" | "created_at" | "finished_at"> {
  readonly failure: string | null;
  readonly total_cost: number;
}
interface Reason {
  readonly failure: string;
  readonly count: number;
  readonly first_at: string;
  readonly last_at: string;
  readonly trend: readonly number[];
}
type Counts = Record<string, number>;
const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
const countBy = <T>(
  items: readonly T[],
  key: (item: T) => string | null,
  of: (item: T) => number = () => 1,
) => {
  const counts: Counts = {};
  for (const item of items) {
    const one = key(item);
    if (one !== null && of(item) > 0) counts[one] = (counts[one] ?? 0) + of(item);
  }
  return counts;
};

describe.each(HOLDERS)("the pages of $name ($role)", (holder) => {
  const { name } = holder;
  const isWhole =
    holder.role !== "starter" && holder.role !== "answerer" && !holder.agents && !holder.workspace;
  const seenJobs = () => jobs.filter((job) => seesJob(holder, job)).map(({ id }) => id);
  const seenCases = () => cases.filter((item) => seesCase(holder, item));
  /** Ids that may be on its pages: of its jobs, and of those that ask it. */
  const known = () => new Set([...seenJobs(), ...seenCases().map(({ job_id }) => job_id)]);

  it("name and count nothing of what it does not see, error pages neither", async () => {
    const wrong: string[] = [];
    const waiting = seenCases().filter(({ status }) => status === "awaiting").length;
    const failed = jobs.filter((job) => job.status === "failed" && seesJob(holder, job)).length;
    for (const path of [...PAGES, ...(isWhole ? [] : ["/admin/jobs/job-0/compare"])]) {
      for (const accept of ["text/html", "application/json"]) {
        const response = await get(name, path, accept);
        const text = await response.text();
        const foreign = [...numbersIn(text)].filter((id) => !known().has(id) && !path.includes(id));
        if (foreign.length > 0) wrong.push(`${path} names ${foreign.join()}`);
        const isPage = text.includes('<nav class="nav"');
        const badges = { Inbox: waiting, Failures: failed };
        for (const [label, want] of Object.entries(isPage ? badges : {})) {
          const said = badgeIn(text, label);
          if (said !== want) wrong.push(`${path} counts ${said} beside ${label}, not ${want}`);
        }
        if (response.status >= 500) wrong.push(`${path}: ${response.status}`);
      }
    }
    const total = async (path: string) =>
      ((await (await get(name, path, "application/json")).json()) as { total: number }).total;

    expect(wrong).toEqual([]);
    expect(await total("/admin/api/jobs?limit=1")).toBe(seenJobs().length);
    expect(await total("/admin/api/cases?limit=1")).toBe(seenCases().length);
    expect(await total("/admin/api/inbox?limit=1")).toBe(waiting);
    // They are no empty pages.
    if (seenJobs().length > 0) expect(await (await get(name, "/admin/jobs")).text()).toContain("job-");
    expect(seenCases().length).toBeGreaterThan(0);
  });

  it("show the jobs and cases that it sees, and no others", async () => {
    const wrong: string[] = [];
    for (const job of jobs) {
      const paths = [
        `/admin/jobs/${job.id}`,
        `/admin/api/jobs/${job.id}/timeline`,
        `/admin/api/jobs/${job.id}/log`,
      ];
      for (const path of [...paths, `/admin/api/live?job=${job.id}`]) {
        const response = await get(name, path);
        await response.body?.cancel();
        const want = seesJob(holder, job) || (isWhole && path.includes("live")) ? 200 : 404;
        if (response.status !== want) wrong.push(`${path}: ${response.status}, not ${want}`);
      }
    }
    for (const item of cases) {
      const { status } = await get(name, `/admin/cases/${item.id}`);
      if (status !== (seesCase(holder, item) ? 200 : 404)) wrong.push(`${item.id}: ${status}`);
    }

    expect(wrong).toEqual([]);
  });

  it("have the figures of what it sees, as its exports have them", async () => {
    const json = async <T>(path: string) => (await (await get(name, path, "application/json")).json()) as T;
    const own = await json<ExportedJob[]>("/admin/api/jobs/export?format=json");
    const ownCases = await json<StoredCase[]>("/admin/api/cases/export?format=json");
    expect(own.map(({ id }) => id).sort()).toEqual(seenJobs().sort());
    const response = await get(name, "/admin/api/dashboard?range=24h", "application/json");
    const shown = (await response.json()) as {
      jobs: { total: number; by_status: Counts };
      cases: { total: number; by_status: Counts };
      recent_activity: readonly { type: string; id: string }[];
      cost_today: number;
      cost_month: number;
      cost_forecast: number | null;
      hours: readonly { counts: Counts }[];
      budgets: readonly object[];
      attention: readonly { kind: string; agent: string | null; count: number }[];
      well: {
        completed: number;
        failed: number;
        p50: number | null;
        columns: readonly { counts: Counts }[];
        failures: readonly Reason[];
        costs: readonly { agent: string; cost: number; jobs: number }[];
      };
    };

    expect([shown.jobs.total, shown.cases.total]).toEqual([own.length, ownCases.length]);
    const positive = (counts: Counts) =>
      Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
    expect(positive(shown.jobs.by_status)).toEqual(countBy(own, ({ status }) => status));
    expect(positive(shown.cases.by_status)).toEqual(countBy(ownCases, ({ status }) => status));
    const ended = (status: string) => own.filter((job) => job.status === status);
    const took = ended("completed")
      .map((job) => Date.parse(job.finished_at!) - Date.parse(job.created_at))
      .sort((a, b) => a - b);
    expect(shown.well).toMatchObject({
      ...{ completed: took.length, failed: ended("failed").length },
      p50: took[Math.ceil(took.length / 2) - 1] ?? null,
    });
    const statuses = countBy(own, ({ status }) =>
      ["completed", "failed", "cancelled"].includes(status) ? status : "running",
    );
    for (const of of ["completed", "failed", "cancelled", "running"])
      expect(sum(shown.well.columns.map(({ counts }) => counts[of]!))).toBe(statuses[of] ?? 0);
    for (const of of ["completed", "failed", "running"])
      expect(sum(shown.hours.map(({ counts }) => counts[of]!))).toBe(statuses[of] ?? 0);
    const costs = countBy(
      own,
      ({ agent_name }) => agent_name,
      ({ total_cost }) => total_cost,
    );
    expect(Object.fromEntries(shown.well.costs.map(({ agent, cost }) => [agent, cost]))).toEqual(costs);
    for (const { agent, jobs: count } of shown.well.costs)
      expect(count).toBe(own.filter(({ agent_name }) => agent_name === agent).length);
    const cost = sum(own.map(({ total_cost }) => total_cost));
    expect([shown.cost_today, shown.cost_month]).toEqual([cost, cost]);
    // Of all jobs of an agent: for who sees them all.
    const seesAll = !holder.workspace && holder.role !== "starter" && holder.role !== "answerer";
    expect(shown.budgets).toHaveLength(seesAll ? 1 : 0);
    const changed = [...own, ...ownCases].map(({ id }) => id);
    expect(shown.recent_activity.map(({ id }) => id).filter((id) => !changed.includes(id))).toEqual([]);
    expect(shown.recent_activity).toHaveLength(Math.min(10, changed.length));
    const { items: attention } = await json<{ items: typeof shown.attention }>("/attention");
    expect(shown.attention).toEqual(attention);

    const failures = await json<{ total: number; reasons: number; items: readonly Reason[] }>(
      "/admin/api/failures",
    );
    const reasons = countBy(ended("failed"), ({ failure }) => failure);
    for (const items of [failures.items, shown.well.failures])
      expect(Object.fromEntries(items.map(({ failure, count }) => [failure, count]))).toEqual(reasons);
    expect([failures.total, failures.reasons]).toEqual([ended("failed").length, Object.keys(reasons).length]);
    for (const { failure, first_at, last_at, trend, count } of failures.items) {
      const ends = ended("failed")
        .flatMap((job) => (job.failure === failure ? [job.finished_at!] : []))
        .sort();
      expect([first_at, last_at, sum(trend)]).toEqual([ends[0], ends.at(-1), count]);
    }
  });

  it("compare two jobs that it sees, and no others", async () => {
    const wrong: string[] = [];
    const foreign = jobs.filter((job) => !seesJob(holder, job)).map(({ id }) => id);
    const [one, two] = seenJobs();
    for (const [left, right, want] of [
      [one, two, 200],
      [one, foreign[0], 404],
      [foreign[0], one, 404],
      [foreign[0], foreign[1], 404],
    ] as const) {
      if (left === undefined || right === undefined) continue;
      for (const accept of ["text/html", "application/json"]) {
        const response = await get(name, `/admin/jobs/${left}/compare?with=${right}`, accept);
        if (response.status !== want) wrong.push(`${left} with ${right}: ${response.status}`);
        if (want === 404 && (await response.text()).includes(`evidence of ${right}`)) wrong.push(right);
      }
    }
    const offered = one === undefined ? "" : await (await get(name, `/admin/jobs/${one}/compare`)).text();
    wrong.push(...[...numbersIn(offered)].filter((id) => !seenJobs().includes(id)));

    expect(wrong).toEqual([]);
  });

  it("offer no link and no button that would be refused", async () => {
    const wrong: string[] = [];
    const first = [
      ...seenJobs().slice(0, 4),
      ...["completed", "failed"].flatMap((status) =>
        jobs
          .filter((job) => job.status === status && seesJob(holder, job))
          .slice(0, 1)
          .map(({ id }) => id),
      ),
    ].map((id) => `/admin/jobs/${id}`);
    const items = seenCases()
      .slice(0, 3)
      .map(({ id }) => `/admin/cases/${id}`);
    const seen = new Map<string, string>();
    const open = async (path: string): Promise<string> => {
      const response = await get(name, path);
      const text = await response.text();
      if (response.status === 403 || response.status === 404) return "";
      seen.set(path, text);
      return text;
    };
    for (const path of [...PAGES, ...first, ...items]) if (!path.includes("/api/")) await open(path);
    const checked = new Set<string>();
    for (const [path, text] of seen) {
      const { links, forms, live } = exitsOf(text);
      for (const to of [...links, ...live]) {
        if (checked.has(to)) continue;
        checked.add(to);
        const response = await get(name, to);
        await response.body?.cancel();
        if (response.status >= 400) wrong.push(`${path} leads to ${to}: ${response.status}`);
      }
      for (const to of forms) {
        const route = routeOf("POST", to);
        const may =
          route.needs === "nothing" ||
          (grants(holder.role, route.needs) && (isWhole || route.narrows === true));
        if (!may) wrong.push(`${path} has a form for ${to}, which needs ${route.needs}`);
      }
    }

    expect(wrong).toEqual([]);
    expect(seen.size).toBeGreaterThan(3);
    expect(checked.size).toBeGreaterThan(5);
  });
});

it("an answerer finds its questions with their evidence, and answers them", async () => {
  const { id, job_id } = cases.find(
    (one) => one.status === "awaiting" && one.question?.assigned_to === "finance",
  )!;
  const page = await (await get("finance", `/admin/inbox?question=${id}`)).text();
  const form = { question_id: /name="question_id" value="([^"]+)"/.exec(page)?.[1] ?? "", "f.fine": "true" };
  const send = (name: string, to: string) =>
    server.request(`/admin/cases/${to}/answer`, {
      method: "POST",
      key: keyOf(name),
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "text/html" },
      body: new URLSearchParams(form).toString(),
      redirect: "manual",
    });

  const foreign = cases.find((one) => one.question?.assigned_to === "legal")!;
  const refused = [await send("legal", id), await send("finance", foreign.id), await send("watcher", id)];
  const answered = await send("finance", id);

  expect(page).toContain(`question of ${job_id}`);
  expect(page).toContain(`evidence of ${job_id}`);
  expect(page).not.toContain(`log of ${job_id}`);
  expect(refused.map(({ status }) => status)).toEqual([404, 404, 403]);
  expect([answered.status, answered.headers.get("location")]).toEqual([303, "/admin/inbox"]);
  await expect.poll(async () => (await server.service.get(JOBS).get(job_id)).status).toBe("completed");
});

it("a starter starts from a form, and its page of the job shows what became of it", async () => {
  const response = await server.request("/admin/agents/asker/start", {
    method: "POST",
    key: keyOf("two"),
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "text/html" },
    body: "job_id=started-by-form&f.to=finance",
    redirect: "manual",
  });

  expect([response.status, response.headers.get("location")]).toEqual([303, "/admin/jobs/started-by-form"]);
  const own = await get("two", "/admin/jobs/started-by-form");
  expect(own.status).toBe(200);
  expect((await server.service.get(JOBS).get("started-by-form")).job_context.workspace_id).toBe("acme");
  expect((await get("one", "/admin/jobs/started-by-form")).status).toBe(404);
});

describe("a starter", () => {
  const send = (id: string, form: Record<string, string>, name = "one") =>
    server.request(`/admin/cases/${id}/answer`, {
      method: "POST",
      key: keyOf(name),
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "text/html" },
      body: new URLSearchParams(form).toString(),
      redirect: "manual",
    });
  const ask = async (job_id: string, to?: string) => {
    const json = { job_context: { job_id }, job_fields: { ...(to && { to }) } };
    expect((await server.request("/agents/asker/jobs", { key: keyOf("one"), json })).status).toBe(202);
    await expect.poll(async () => (await server.service.get(JOBS).get(job_id)).status).toBe("awaiting");
    const page = await (await get("one", `/admin/inbox?question=case-${job_id}`)).text();
    const { question } = (await (
      await get("one", `/admin/api/cases/case-${job_id}`, "application/json")
    ).json()) as StoredCase;
    return { page, question_id: question!.id };
  };

  it("answers what its job asks of nobody with a form of the inbox, and nobody else's job", async () => {
    const { page, question_id } = await ask("form-of-own");
    const foreign = await send("case-form-of-own", { question_id, "f.fine": "true" }, "two");
    const answered = await send("case-form-of-own", { question_id, "f.fine": "true" });

    expect(page).toContain('action="/admin/cases/case-form-of-own/answer"');
    expect(foreign.status).toBe(404);
    expect([answered.status, answered.headers.get("location")]).toEqual([303, "/admin/inbox"]);
    await expect.poll(async () => (await server.service.get(JOBS).get("form-of-own")).status).toBe("failed");
  });

  it("has no form for what its job asks of somebody, and does not answer that, by a token neither", async () => {
    const { page, question_id } = await ask("form-of-others", "finance");
    const make = (json: object) => server.request("/jobs/form-of-others/tokens", { key: keyOf("one"), json });
    const { token } = (await (await make({ scopes: ["answer"], name: "finance" })).json()) as {
      token: string;
    };

    const byForm = await send("case-form-of-others", { question_id, "f.fine": "true" });
    const byToken = await fetch(`${server.url}/jobs/form-of-others/cases/case-form-of-others/update`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ answer: { fine: true } }),
    });

    expect(page).toContain("question of form-of-others");
    expect(page).not.toContain('action="/admin/cases/case-form-of-others/answer"');
    expect([byForm.status, byToken.status]).toEqual([403, 403]);
    expect((await server.service.get(JOBS).get("form-of-others")).status).toBe("awaiting");
  });

  it("answers what its job asks of it by its name", async () => {
    const { question_id } = await ask("form-by-name", "one");

    expect((await send("case-form-by-name", { question_id, "f.fine": "true" })).status).toBe(303);
  });

  it("uploads a file for a job that it starts", async () => {
    const upload = await server.request("/files?name=a.txt", {
      method: "POST",
      key: keyOf("one"),
      headers: { "content-type": "text/plain" },
      body: "content",
    });

    expect(upload.status).toBe(201);
  });
});

it("who sees a part begins on the first page that is for them", async () => {
  const to = async (name: string) => {
    const response = await get(name, "/admin/");
    return [response.status, response.headers.get("location")];
  };

  expect(await to("finance")).toEqual([303, "/admin/inbox"]);
  expect(await to("one")).toEqual([200, null]);
  expect(await to("watcher")).toEqual([200, null]);
});

it("an open page of who sees a part hears of its own changes only", async () => {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const stream = await server.request("/admin/api/live", { key: keyOf("one"), signal: stop.signal });
  let text = "";
  void (async () => {
    for await (const bytes of stream.body!) text += Buffer.from(bytes).toString();
  })().catch(() => {});
  const start = (key: string, job_id: string) =>
    server.request("/agents/asker/jobs", {
      key,
      json: { job_context: { job_id }, job_fields: { to: "nobody" } },
    });
  await expect.poll(() => text).toContain("event: hello");

  await start(server.key, "live-foreign");
  await expect.poll(async () => (await server.service.get(JOBS).get("live-foreign")).status).toBe("awaiting");
  await start(keyOf("one"), "live-own");
  await expect.poll(() => text).toContain("case-live-own");

  expect(text).not.toContain("live-foreign");
  const changes = [...text.matchAll(/event: change\ndata: (.+)/g)].map(([, data]) => JSON.parse(data!));
  const own = cases.filter((one) => one.status === "awaiting" && seesCase(HOLDERS[2]!, one)).length;
  expect(changes.at(-1)).toMatchObject({ spoken: "", added: { jobs: 0, cases: 0 } });
  expect(changes.at(-1).inbox).toBeLessThanOrEqual(own + 1);
});
