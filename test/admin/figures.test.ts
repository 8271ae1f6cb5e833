// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STORE } from "agent-control-service/plugin";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Desk, fillDesk } from "../../bench/desk/seed.ts";
import {
  type Case,
  DAY,
  DESK_JOBS,
  dayOf,
  groupBy as groupsOf,
  type Job,
  readJson,
  sum,
  type Use,
} from "./_desk-truth.ts";

const RANGES = { "1h": DAY / 24, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY } as const;

let folder: string;
let desk: Desk;
/** What the exports have: everything else is compared with this. */
let jobs: readonly Job[];
let cases: readonly Case[];
let uses: readonly Use[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "svc-figures-"));
  desk = await fillDesk(folder, DESK_JOBS);
  [jobs, cases, uses] = await Promise.all([
    json<Job[]>("/admin/api/jobs/export?format=json"),
    json<Case[]>("/admin/api/cases/export?format=json"),
    json<Use[]>("/admin/api/models/export?format=json&days=366"),
  ]);
}, 1_200_000);
afterAll(async () => {
  await desk?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const json = <T>(path: string) => readJson<T>(desk, path);
const page = async (path: string) =>
  (await desk.server.request(path, { headers: { accept: "text/html" } })).text();
const totalOf = async (path: string) =>
  (await json<{ total: number }>(path.replace("/admin/", "/admin/api/"))).total;
const count = (some: readonly unknown[]) => some.length;
const textOf = (html: string) => html.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
const numberOf = (text: string) => Number(text.replaceAll(/[^\d.]/g, ""));
const linkOf = (href: string) => href.replaceAll("&amp;", "&");
const groupBy = <T>(items: readonly T[], key: (item: T) => string | null) =>
  Object.fromEntries(groupsOf(items, key));
const countBy = <T>(items: readonly T[], key: (item: T) => string | null) =>
  Object.fromEntries(Object.entries(groupBy(items, key)).map(([of, some]) => [of, some.length]));

it("the seed has every fate, and the exports have each of its jobs that was not deleted", () => {
  const { held, asking, stopped, refused, unreachable, deleted, parent } = desk.started;
  const { scheduled } = desk;
  const by = countBy(jobs, ({ status }) => status);
  expect(by).toMatchObject({ cancelled: stopped, failed: refused + unreachable, awaiting: asking + held });
  // Those that a parent or a schedule has started are jobs, too.
  expect(count(jobs)).toBe(DESK_JOBS - deleted + parent + scheduled);
  expect(sum(cases.map(({ total_cost }) => total_cost))).toBeGreaterThan(0);
});

/** The jobs that ended in a time, and those of them with a status. */
const endedIn = (length: number, status?: string) =>
  jobs.filter(
    (job) =>
      Date.parse(job.finished_at ?? "") >= desk.now() - length &&
      (status === undefined || job.status === status),
  );
const failuresIn = (length: number) => countBy(endedIn(length, "failed"), ({ failure }) => failure);

interface Dashboard {
  readonly cost_today: number;
  readonly cost_month: number;
  readonly well: {
    readonly completed: number;
    readonly failed: number;
    readonly p50: number | null;
    readonly p95: number | null;
    readonly columns: readonly { from: string; counts: Record<string, number> }[];
    readonly failures: readonly { failure: string; count: number }[];
    readonly costs: readonly { agent: string; cost: number; jobs: number }[];
  };
}

it.each(Object.entries(RANGES))(
  "the figures of the dashboard over %s are those of the exports",
  async (range, length) => {
    const { well, cost_today, cost_month } = await json<Dashboard>(`/admin/api/dashboard?range=${range}`);
    const done = endedIn(length, "completed");
    const durations = done
      .map((job) => Date.parse(job.finished_at!) - Date.parse(job.created_at))
      .sort((a, b) => a - b);
    const at = (share: number) => durations[Math.ceil(durations.length * share) - 1] ?? null;
    expect(well).toMatchObject({
      ...{ completed: count(done), failed: count(endedIn(length, "failed")), p50: at(0.5), p95: at(0.95) },
    });
    expect(Object.fromEntries(well.failures.map(({ failure, count }) => [failure, count]))).toEqual(
      failuresIn(length),
    );

    const starts = well.columns.map(({ from }) => new Date(from).getTime());
    const columns = starts.map((from) => {
      const of = jobs.filter(({ created_at }) => {
        const created = Date.parse(created_at);
        return created >= from && created < from + starts[1]! - starts[0]!;
      });
      const { completed = 0, failed = 0, cancelled = 0 } = countBy(of, ({ status }) => status);
      return { completed, failed, cancelled, running: of.length - completed - failed - cancelled };
    });
    expect(well.columns.map(({ counts }) => counts)).toEqual(columns);

    const days = { "1h": 1, "24h": 1, "7d": 7, "30d": 30 }[range]!;
    const first = dayOf(desk.now() - (days - 1) * DAY);
    const spent = groupBy(
      uses.filter(({ day }) => day >= first),
      ({ agent }) => agent,
    );
    const costs = Object.entries(spent).map(([agent, some]) => ({
      ...{ agent, cost: sum(some.map(({ cost }) => cost)) },
      jobs: count(jobs.filter((job) => job.agent_name === agent && job.created_at >= first)),
    }));
    expect(well.costs).toEqual(costs.sort((a, b) => b.cost - a.cost));
    const since = (day: string) => sum(uses.filter((use) => use.day >= day).map(({ cost }) => cost));
    expect([cost_today, cost_month]).toEqual([
      since(dayOf(desk.now())),
      since(`${dayOf(desk.now()).slice(0, 7)}-01`),
    ]);
  },
);

/** Links to jobs, with the number that each is said to have. */
async function expectTotals(links: Iterable<readonly [href: string, number: number]>): Promise<void> {
  const said = [...links].map(([href, number]) => `${number} ${linkOf(href)}`);
  const found = await Promise.all(
    [...links].map(async ([href]) => `${await totalOf(linkOf(href))} ${linkOf(href)}`),
  );
  expect(said.length).toBeGreaterThan(0);
  expect(said).toEqual(found);
}

it.each(Object.entries(RANGES))(
  "each figure of the dashboard over %s leads to as many jobs",
  async (range, length) => {
    const html = await page(`/admin/?range=${range}`);
    const [lead = ""] = /<p class="lead">[\s\S]*?<\/p>/.exec(html) ?? [];
    const phrases = [...lead.matchAll(/href="([^"]+)">([\d,]+) /g)];
    await expectTotals(phrases.map(([, href, number]) => [href!, numberOf(number!)]));
    const texts = textOf(lead);
    expect(texts).toContain(`${count(jobs.filter(({ state }) => state === "held"))} held`);
    expect(texts).toContain(`${count(cases.filter(({ status }) => status === "awaiting"))} open questions`);
    expect(texts).toContain(`${count(endedIn(length, "failed"))} failed in the last`);

    const reasons = [
      ...html.matchAll(/<b class="big">([^<]+)<\/b><div class="grow"><a class="name" href="([^"]+)"/g),
    ];
    if (range !== "1h") await expectTotals(reasons.map(([, number, href]) => [href!, numberOf(number!)]));
    const columns = [
      ...html.matchAll(/<a href="(\/admin\/jobs\?since[^"]+)"[^>]*aria-label="[^"]*: ([^"]+)"/g),
    ];
    await expectTotals(
      columns.map(([, href, said]) => [href!, sum([...said!.matchAll(/\d+/g)].map(([one]) => Number(one)))]),
    );
    const [, top = ""] = /<div class="plot"><span[^>]*>([\d,]+)</.exec(html) ?? [];
    const most = Math.max(...columns.map(([, , said]) => sum(said!.match(/\d+/g)!.map(Number))));
    expect(numberOf(top)).toBeGreaterThanOrEqual(most);
    const [done, failed] = [count(endedIn(length, "completed")), count(endedIn(length, "failed"))];
    const [, href = "", note] =
      /<a href="([^"]+)"><span class="k">Completed[\s\S]*?<small>([^<]*)</.exec(html) ?? [];
    const shown = (figure: number) => figure.toLocaleString("en-US");
    expect(note).toBe(`${shown(done)} completed, ${shown(failed)} failed`);
    await expectTotals([[href, done]]);
  },
);

it.each([
  ["1", DAY],
  ["7", 7 * DAY],
  ["30", 30 * DAY],
  ["", Number.POSITIVE_INFINITY],
])(
  "the failures by reason of %s days are those of the exports, and lead to as many jobs",
  async (days, length) => {
    const api = await json<{ total: number; reasons: number; items: Reason[] }>(
      `/admin/api/failures?days=${days}`,
    );
    const failed = endedIn(length, "failed");
    const expected = Object.entries(groupBy(failed, ({ failure }) => failure)).map(([failure, some]) => {
      const ends = some.map(({ finished_at }) => finished_at!).sort();
      return { failure, count: some.length, first_at: ends[0], last_at: ends.at(-1) };
    });
    const inOrder = (items: readonly Reason[]) =>
      items
        .map(({ failure, count, first_at, last_at }) => ({ failure, count, first_at, last_at }))
        .sort((a, b) => (a.failure < b.failure ? -1 : 1));
    expect([api.total, api.reasons]).toEqual([failed.length, expected.length]);
    expect(inOrder(api.items)).toEqual(inOrder(expected as Reason[]));
    const shown = failuresIn(days === "" ? 30 * DAY : length);
    for (const { failure, trend } of api.items) expect(sum(trend)).toBe(shown[failure] ?? 0);

    const html = await page(`/admin/failures?days=${days}`);
    expect(html).toContain(`${failed.length} failed job`);
    const reasons = html.matchAll(
      /<b class="big">([^<]+)<\/b><div class="grow"><a class="name" href="([^"]+)"/g,
    );
    await expectTotals([...reasons].map(([, number, href]) => [href!, numberOf(number!)]));
  },
);

interface Reason {
  readonly failure: string;
  readonly count: number;
  readonly first_at: string;
  readonly last_at: string;
  readonly trend: readonly number[];
}

const hasTag = (job: Job, tag: string) => job.tags.includes(tag);
/** Filters of the list, and what each finds of the export. */
const FILTERS: readonly (readonly [query: () => Record<string, string>, (job: Job) => boolean])[] = [
  [() => ({}), () => true],
  [() => ({ agent_name: "refund-desk" }), ({ agent_name }) => agent_name === "refund-desk"],
  [() => ({ tag: "customer:c3" }), (job) => hasTag(job, "customer:c3")],
  [
    () => ({ tag: "region:eu", started_by: "ada" }),
    (job) => hasTag(job, "region:eu") && job.started_by === "ada",
  ],
  [() => ({ min_cost: "0.012" }), ({ total_cost }) => total_cost >= 0.012],
  [() => ({ search: "HL-1" }), ({ name }) => name.startsWith("Order HL-1")],
  [() => ({ stop_reason: "code_changed" }), ({ stop_reason }) => stop_reason === "code_changed"],
  [
    () => ({ ended_since: new Date(desk.now() - 7 * DAY).toISOString() }),
    ({ finished_at }) => Date.parse(finished_at ?? "") >= desk.now() - 7 * DAY,
  ],
  [
    () => ({ since: dayOf(desk.now() - 9 * DAY), until: dayOf(desk.now() - 4 * DAY) }),
    ({ created_at }) => created_at >= dayOf(desk.now() - 9 * DAY) && created_at < dayOf(desk.now() - 4 * DAY),
  ],
];
const TAB = /href="\/admin\/(?:jobs|cases)(?:\?([^"]*))?"[^>]*>([^<]+)<span class="count">([\d,]+)</g;

it.each(FILTERS)(
  "the tabs of the list of jobs count what the export has, and lead to it: filter %#",
  async (query, isFound) => {
    const filter = new URLSearchParams(query()).toString();
    const found = jobs.filter(isFound);
    const tabs = [...(await page(`/admin/jobs?${filter}`)).matchAll(TAB)];
    expect(tabs.length).toBeGreaterThan(5);
    for (const [, given = "", label, number] of tabs) {
      const asked = new URLSearchParams(linkOf(given));
      const status = asked.get("status");
      const expected = found.filter(
        ({ status: stored, state }) =>
          status === null ||
          state === (status === "awaiting" ? "waiting_for_answer" : status) ||
          (stored === status && status !== "awaiting"),
      );
      expect([label, numberOf(number!)]).toEqual([label, expected.length]);
      expect([label, await totalOf(`/admin/jobs?${asked}`)]).toEqual([label, expected.length]);
      const exported = await json<Job[]>(`/admin/api/jobs/export?format=json&${asked}`);
      expect(exported.map(({ id }) => id).sort()).toEqual(expected.map(({ id }) => id).sort());
    }
  },
);

it("a list of jobs with a tag says what they have cost together", async () => {
  const tags = new Set(jobs.flatMap((job) => job.tags));
  expect(tags.size).toBeGreaterThan(5);
  for (const tag of tags) {
    const of = jobs.filter((job) => hasTag(job, tag));
    const cost = sum(of.map(({ total_cost }) => total_cost));
    const found = await json<{ cost: number }>(`/admin/api/jobs?${new URLSearchParams({ tag })}`);
    expect([tag, found.cost]).toEqual([tag, expect.closeTo(cost, 9)]);
    const since = new Date(desk.now() - 7 * DAY).toISOString();
    const recent = of.filter(({ created_at }) => created_at >= since);
    const html = await page(`/admin/jobs?${new URLSearchParams({ tag, since })}`);
    const [, shown] = /· \$([\d.,]+) in all/.exec(html) ?? [];
    if (recent.length === 0) continue;
    const exact = sum(recent.map(({ total_cost }) => total_cost));
    expect([tag, Math.abs(numberOf(shown ?? "") - exact) < 0.00501]).toEqual([tag, true]);
  }
});

it("the tabs of the list of cases, the inbox and the pages of jobs have what the exports have", async () => {
  const by = countBy(cases, ({ status }) => status);
  for (const [, given = "", label, number] of (await page("/admin/cases")).matchAll(TAB)) {
    const status = new URLSearchParams(linkOf(given)).get("status");
    expect([label, numberOf(number!)]).toEqual([label, status === null ? cases.length : (by[status] ?? 0)]);
  }
  expect(await totalOf("/admin/inbox")).toBe(by.awaiting);
  const some = Object.values(groupBy(jobs, ({ state }) => state)).map(([job]) => job!);
  for (const job of some) {
    const shown = await json<{ job: Job }>(`/admin/api/jobs/${job.id}`);
    expect((shown.job ?? shown).total_cost).toBe(job.total_cost);
    const of = cases.filter(({ job_id }) => job_id === job.id);
    expect([job.id, job.case_count, job.failed_cases]).toEqual([
      ...[job.id, of.length, count(of.filter(({ status }) => status === "failed"))],
    ]);
  }
});

it.each(["1", "7", "30", "366"])(
  "the sums of %s days on the page of models are those of its export",
  async (days) => {
    const since = dayOf(desk.now() - (Number(days) - 1) * DAY);
    const recent = uses.filter(({ day }) => day >= since);
    const html = await page(`/admin/models?days=${days}`);
    const cells = (row: string) =>
      [...row.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)].map(([, cell]) => textOf(cell!).trim());
    const expected = (some: readonly Use[]) => {
      const total = (of: (use: Use) => number) => sum(some.map(of));
      return [
        ...[total(({ calls }) => calls), total(({ failed }) => failed), total((use) => use.input_tokens)],
        ...[total((use) => use.cached_tokens), total((use) => use.output_tokens)],
      ];
    };
    for (const [title, key] of [
      ["Model", "model"],
      ["Agent", "agent"],
      ["Day", "day"],
    ] as const) {
      const [table = ""] = html.split(`<table aria-label="By ${title}">`)[1]?.split("</table>") ?? [];
      const rows = [...table.matchAll(/<tr>(<td[\s\S]*?)<\/tr>/g)].map(([, row]) => cells(row!));
      const sums = { ...groupBy(recent, (use) => use[key]), All: recent };
      expect(rows.map(([name]) => name).sort()).toEqual(Object.keys(sums).sort());
      for (const [name, ...numbers] of rows) {
        const of = sums[name as keyof typeof sums]!;
        expect([name, ...numbers.slice(0, -1).map(numberOf)]).toEqual([name, ...expected(of)]);
        const isRounded = Math.abs(numberOf(numbers.at(-1)!) - sum(of.map(({ cost }) => cost))) < 0.00501;
        expect([name, numbers.at(-1), isRounded]).toEqual([name, numbers.at(-1), true]);
      }
    }
  },
);

it("what jobs cost is what their agents spent on models, apart from deleted jobs", async () => {
  const { items } = await desk.server.service.get(STORE).table("DeletedJob").list({ limit: 1000 });
  expect(items).toHaveLength(desk.started.deleted);
  const deleted = sum(items.map(({ total_cost }) => total_cost));
  const spent = sum(uses.map(({ cost }) => cost));
  expect(sum(jobs.map(({ total_cost }) => total_cost)) + deleted).toBeCloseTo(spent, 6);
});

it("the figures of agents and of what needs attention are those of the exports", async () => {
  const { items } = await json<{ items: { slug: string; statistics: object }[] }>("/admin/api/agents");
  for (const { slug, statistics } of items) {
    const own = jobs.filter(({ agent_name }) => agent_name === slug);
    const {
      completed = 0,
      failed = 0,
      cancelled = 0,
      in_progress = 0,
    } = countBy(own, ({ status }) => status);
    expect({ slug, statistics }).toEqual({
      slug,
      statistics: {
        ...{ total_jobs: own.length, completed_jobs: completed, failed_jobs: failed + cancelled },
        in_progress_jobs: in_progress,
        success_rate: Math.round((1000 * completed) / own.length) / 10,
      },
    });
  }
  const attention = await json<{ items: { kind: string; count: number }[] }>("/attention");
  const held = attention.items.filter(({ kind }) => kind === "held");
  expect(sum(held.map(({ count }) => count))).toBe(desk.started.held);
  const nav = /Failures<\/span>[^<]*<[^>]*>([\d,]+)</.exec(await page("/admin/server"));
  expect(numberOf(nav?.[1] ?? "0")).toBe(count(endedIn(DAY, "failed")));
});
