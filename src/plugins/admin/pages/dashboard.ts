import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { AttentionItem } from "../../../core/models/attention.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { HELD_JOBS, QUEUED_JOBS, RUNNING_JOBS } from "../../../core/models/job-state.ts";
import type { BudgetUse } from "../../../core/models/spending.ts";
import type { ListQuery } from "../../../core/store/store.ts";
import { redirect } from "../answer.ts";
import { DashboardSchema, RecentSchema, StatsSchema } from "../answers/entities.ts";
import type { FailureGroup } from "../failures/read-failures.ts";
import { readInbox } from "../inbox/read-inbox.ts";
import { startable } from "../lists/jobs-list.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { niceTop, renderChart } from "../views/chart.ts";
import { elapsed, formatCost, formatCount, formatDuration, stampsIn, toLabel } from "../views/format.ts";
import { duePiece, jobPiece, meterBar, pathTo, timePiece } from "../views/pieces.ts";
import { toAttentionView } from "./attention.ts";
import { readCards } from "./cards.ts";
import type { MonthView } from "./figures.ts";
import { readRecent, recentLines } from "./recent.ts";
import { readStats } from "./stats.ts";
import { lastOf, RANGES, type RangeName, type Wellbeing } from "./well.ts";

const SHOWN = 6;
/** The days of the page of failures that hold each range. */
const DAYS: Readonly<Record<RangeName, string>> = { "1h": "1", "24h": "1", "7d": "7", "30d": "30" };

const QuerySchema = filterQuery({ range: optionalText(v.picklist(["1h", "24h", "7d", "30d"])) });

/** The dashboard, and the two API routes that return parts of it. */
export function dashboardRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/", "Dashboard page"],
      api: [
        "/admin/api/dashboard",
        "What the dashboard shows",
        "The figures of the page, for the same time.",
      ],
      query: QuerySchema,
      answer: "What the dashboard shows",
      schema: DashboardSchema,
      // It is about jobs: who sees questions only begins at the inbox.
      seen: ({ query, event }, seen) =>
        seen.caller.sight?.askedOf && event.url.pathname === "/admin/"
          ? redirect("/admin/inbox")
          : dashboard(parts, seen, withoutEmpty(query).range ?? "24h"),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      api: [
        "/admin/api/stats",
        "System statistics",
        "Numbers of jobs and cases by status, and what they have cost.",
      ],
      answer: "System statistics",
      schema: StatsSchema,
      seen: (_, seen) => ({
        page: "dashboard",
        fragment: "stats",
        json: () => readStats(seen, parts.store),
        state: async () => {
          const [well, month] = await Promise.all([seen.figures.well("24h"), seen.figures.month()]);
          return { figures: toTiles(well, month, seen) };
        },
      }),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      api: [
        "/admin/api/recent-activity",
        "The last ten changes",
        "The jobs and cases that changed last, newest first.",
      ],
      answer: "The last ten changes",
      schema: v.object({ items: v.array(RecentSchema) }),
      seen: (_, seen) => ({
        page: "dashboard",
        fragment: "recent-activity",
        json: () => readRecent(seen),
        state: async () => ({ recent: await recentLines(seen, seen.clock()) }),
      }),
    }),
  ];
}

function dashboard(parts: AdminParts, seen: SeenParts, range: RangeName): Resource {
  const { figures } = seen;
  return {
    page: "dashboard",
    fragment: "dashboard",
    json: async () => {
      const [stats, recent, day, well, budgets, attention, month] = await Promise.all([
        readStats(seen, parts.store),
        readRecent(seen),
        figures.well("24h"),
        figures.well(range),
        figures.budgets(),
        figures.attention(),
        figures.month(),
      ]);
      return {
        ...stats,
        recent_activity: recent.items,
        cost_today: month.today,
        cost_month: month.month,
        cost_forecast: month.forecast,
        hours: day.columns.map(({ from, counts: { completed, failed, cancelled, running } }) => ({
          from,
          counts: { completed, failed: failed + cancelled, running },
        })),
        well,
        budgets,
        attention,
      };
    },
    state: () => dashboardState(parts, seen, range),
  };
}

async function dashboardState(
  parts: AdminParts,
  seen: SeenParts,
  range: RangeName,
): Promise<Record<string, unknown>> {
  const { jobs, options, figures, caller } = seen;
  const now = seen.clock();
  const items = await figures.attention();
  const seesAll = caller.sight === undefined;
  const [month, well, running, waiting, failed, beside, budgets] = await Promise.all([
    figures.month(),
    figures.well(range),
    jobs.list({ where: RUNNING_JOBS, sort: "-updated_at", limit: SHOWN }),
    readInbox(seen, { limit: SHOWN, skip: 0 }),
    jobs.list({ where: failedSince(now, RANGES[range].length), sort: "-finished_at", limit: SHOWN }),
    // The service's own health is for who sees everything.
    seesAll ? readCards(parts, items) : { health: undefined, cards: [] },
    figures.budgets(),
  ]);
  const stamp = stampsIn("UTC");
  return {
    startable: startable(seen.agents, caller),
    attention: items.map((item) => toAttentionView(item, caller)),
    calm: waiting.total > 0 ? "Only the open questions need you." : "Nothing needs you.",
    sentence: await readSentence(seen, { well, items }, now),
    figures: toTiles(well, month, seen),
    chart: renderChart(
      well.columns.map(({ from, counts }) => ({
        label: stamp(from, "minute"),
        from: new Date(from).toISOString(),
        href: withQuery("/admin/jobs", {
          since: new Date(from).toISOString(),
          until: new Date(from + RANGES[range].step).toISOString(),
        }),
        parts: [
          { name: "completed", count: counts.completed },
          { name: "failed", count: counts.failed },
          { name: "cancelled", count: counts.cancelled },
          { name: "open", count: counts.running },
        ],
      })),
      `Jobs started in the last ${lastOf(range)}`,
    ),
    axis: toAxis(well, now),
    range: lastOf(range),
    api: withQuery("/admin/api/dashboard", { range }),
    ranges: Object.entries(RANGES).map(([name, { label }]) => ({
      label,
      href: name === "24h" ? "/admin/" : withQuery("/admin/", { range: name }),
      current: name === range,
    })),
    reasons: well.failures.map((group) => toReason(group, now, RANGES[range].length)),
    costs: toCosts(well, options.currency),
    costsOf: `${seesAll ? "" : "jobs of "}${RANGES[range].costs}`,
    byModel: seesAll,
    budgets: budgets.map((use) => toBudget(use, options.currency)),
    running: { total: formatCount(running.total), items: running.items.map((job) => toRunning(job, now)) },
    waiting: {
      total: formatCount(waiting.total),
      tone: waiting.total > 0 ? "alert" : "",
      items: waiting.items.map((item) => toWaiting(item, now)),
    },
    failed: {
      total: formatCount(failed.total),
      items: failed.items.map((job) => toFailed(job, now)),
      byReason: withQuery("/admin/failures", { days: DAYS[range] }),
      all: withQuery("/admin/jobs", { status: "failed", sort: "-updated_at" }),
    },
    ...beside,
  };
}

/** Three figures: what ended well, how long that took, and what it costs. */
function toTiles(
  { completed, failed, p50, p95, range }: Wellbeing,
  { today, month, forecast }: MonthView,
  { options: { currency }, clock, caller: { sight } }: SeenParts,
) {
  const now = clock();
  const since = new Date(now.getTime() - RANGES[range].length).toISOString();
  const all = completed + failed;
  const took = (milliseconds: number | null) => (milliseconds === null ? "–" : formatDuration(milliseconds));
  const ended = (status: string) => withQuery("/admin/jobs", { status, ended_since: since });
  return [
    {
      label: `Completed, last ${lastOf(range)}`,
      value: all === 0 ? "–" : `${Math.floor((1000 * completed) / all) / 10}%`,
      note: `${formatCount(completed)} completed, ${formatCount(failed)} failed`,
      tone: "",
      href: ended("completed"),
    },
    {
      label: "Median duration",
      value: took(p50),
      note: p95 === null ? "none completed" : `p95 ${took(p95)}`,
      tone: "",
      href: withQuery("/admin/jobs", { status: "completed", ended_since: since, sort: "-duration" }),
    },
    {
      label: sight ? "Cost of jobs started today" : "Cost today",
      value: formatCost(today, currency),
      note: [
        `${formatCost(month, currency)} this month`,
        forecast === null ? "" : `about ${formatCost(forecast, currency)} by its end`,
      ]
        .filter(Boolean)
        .join(", "),
      tone: "",
      href: sight ? withQuery("/admin/jobs", { since: now.toISOString().slice(0, 10) }) : "/admin/models",
    },
  ];
}

/** What the chart is read by: the number at its top, and the times below it. */
function toAxis({ columns }: Wellbeing, now: Date) {
  const most = Math.max(0, ...columns.map(({ counts }) => Object.values(counts).reduce((a, b) => a + b, 0)));
  const marks = [0, Math.floor(columns.length / 2)].flatMap((at) => columns[at]?.from ?? []);
  return {
    top: formatCount(niceTop(most)),
    times: marks.map((from) => timePiece(new Date(from).toISOString(), now).toString()),
  };
}

function toReason(group: FailureGroup, now: Date, length: number) {
  const since = new Date(now.getTime() - length).toISOString();
  return {
    reason: group.error || toLabel(group.stop_reason ?? "No error was recorded"),
    count: formatCount(group.count),
    last: timePiece(group.last_at, now).toString(),
    agents: group.agents.map(({ agent }) => agent).join(", "),
    href: withQuery("/admin/jobs", { status: "failed", failure: group.failure, ended_since: since }),
  };
}

/** The dearest agents, with bars against the dearest. */
function toCosts({ costs }: Wellbeing, currency: string) {
  return costs.slice(0, SHOWN).map(({ agent, cost, jobs }) => ({
    agent,
    href: pathTo("agents", agent),
    cost: formatCost(cost, currency),
    each: `${countOf(jobs, "job")} started`,
    bar: meterBar(cost / costs[0]!.cost).toString(),
  }));
}

/** What an agent has spent of a budget. */
function toBudget({ agent, period, budget, spent, refuses }: BudgetUse, currency: string) {
  const share = spent / budget;
  const rest = share >= 1 && refuses ? ", no more jobs" : "";
  return {
    agent,
    href: pathTo("agents", agent),
    text: `${formatCost(spent, currency)} of ${formatCost(budget, currency)} ${period === "day" ? "today" : "this month"}${rest}`,
    tone: share >= 1 ? "over" : share >= 0.8 ? "high" : "",
    bar: meterBar(share).toString(),
  };
}

/** By the time a job ended, not by when it was created. */
function failedSince(now: Date, length: number) {
  return { status: "failed", finished_at: { gte: now.getTime() - length } };
}

/** What the service does, in a sentence of links; the time is that of the figures below. */
async function readSentence(
  { jobs, cases }: SeenParts,
  { well, items }: { readonly well: Wellbeing; readonly items: readonly AttentionItem[] },
  now: Date,
): Promise<readonly Phrase[]> {
  const count = async (where: ListQuery["where"]) =>
    (await jobs.list({ where, limit: 0, joins: "now" })).total;
  const [running, queued, held, { awaiting = 0 }] = await Promise.all([
    count(RUNNING_JOBS),
    count(QUEUED_JOBS),
    count(HELD_JOBS),
    cases.countBy("status", { joins: "now" }),
  ]);
  const stuck = items.filter(({ kind }) => kind === "stuck").reduce((sum, { count }) => sum + count, 0);
  const { length } = RANGES[well.range];
  const since = new Date(now.getTime() - length).toISOString();
  const most = well.failures[0]?.count ?? 0;
  const some = most === well.failed ? "all" : `${formatCount(most)} of them`;
  const inOne = most > 1 ? `, ${some} for one reason` : "";
  const phrases: (Phrase & { readonly count: number; readonly always?: boolean })[] = [
    { count: running, always: true, tone: "", text: "running", href: "/admin/jobs?status=running" },
    { count: stuck, tone: "bad", text: "stuck", href: "/admin/jobs?status=stuck" },
    { count: held, tone: "held", text: "held", href: "/admin/jobs?status=held" },
    { count: queued, tone: "", text: "queued", href: "/admin/jobs?status=queued" },
    {
      count: awaiting,
      tone: "warn",
      text: awaiting === 1 ? "open question" : "open questions",
      href: "/admin/inbox",
    },
    {
      ...{ count: well.failed, always: true, tone: well.failed > 0 ? "bad" : "" },
      text: `failed in the last ${lastOf(well.range)}${inOne}`,
      href: withQuery("/admin/jobs", { status: "failed", ended_since: since }),
    },
  ];
  return phrases
    .filter(({ count, always }) => always || count > 0)
    .map(({ count, tone, text, href }) => ({ tone, href, text: `${formatCount(count)} ${text}` }));
}

interface Phrase {
  readonly text: string;
  readonly href: string;
  readonly tone: string;
}

function toRunning(job: StoredJob, now: Date) {
  const sub = `${job.agent_name} · ${formatDuration(elapsed(job.created_at, null, now))}`;
  return { name: job.name, href: pathTo("jobs", job.id), sub, status: jobPiece(job).toString() };
}

function toWaiting(item: StoredCase, now: Date) {
  return {
    question: item.question?.question ?? item.name,
    href: pathTo("cases", item.id),
    sub: `${item.name} · ${item.job_id}`,
    due: duePiece(item.question?.deadline, now).toString(),
  };
}

function toFailed(job: StoredJob, now: Date) {
  const sub = job.error ?? job.stop_reason ?? job.agent_name;
  return {
    name: job.name,
    href: pathTo("jobs", job.id),
    sub: sub.split("\n")[0]!.slice(0, 200),
    time: timePiece(job.finished_at, now).toString(),
  };
}
