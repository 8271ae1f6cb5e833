import * as v from "valibot";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { BudgetUse } from "../../../core/models/spending.ts";
import { DashboardSchema, RecentSchema, StatsSchema } from "../answers/entities.ts";
import type { FailureGroup } from "../failures/read-failures.ts";
import { readInbox } from "../inbox/read-inbox.ts";
import { startable } from "../lists/jobs-list.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { renderChart } from "../views/chart.ts";
import { elapsed, formatCost, formatCount, formatDuration, stampsIn, toLabel } from "../views/format.ts";
import { duePiece, jobPiece, meterBar, pathTo, timePiece } from "../views/pieces.ts";
import { readCards } from "./cards.ts";
import { readRecent, recentLines } from "./recent.ts";
import { readStats } from "./stats.ts";
import { RANGES, type RangeName, type Wellbeing } from "./well.ts";

const DAY = 24 * 3_600_000;
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
      api: ["/admin/api/dashboard", "What the dashboard shows"],
      query: QuerySchema,
      answer: "What the dashboard shows",
      schema: DashboardSchema,
      resource: ({ query }) => dashboard(parts, withoutEmpty(query).range ?? "24h"),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      api: ["/admin/api/stats", "System statistics"],
      answer: "System statistics",
      schema: StatsSchema,
      resource: () => ({
        page: "dashboard",
        fragment: "stats",
        json: () => readStats(parts),
        state: async () => ({ figures: toFigures(await readFigures(parts), parts.options.currency) }),
      }),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      api: ["/admin/api/recent-activity", "The last ten changes"],
      answer: "The last ten changes",
      schema: v.object({ items: v.array(RecentSchema) }),
      resource: () => ({
        page: "dashboard",
        fragment: "recent-activity",
        json: () => readRecent(parts),
        state: async () => ({ recent: await recentLines(parts, parts.clock()) }),
      }),
    }),
  ];
}

function dashboard(parts: AdminParts, range: RangeName): Resource {
  return {
    page: "dashboard",
    fragment: "dashboard",
    json: async () => {
      const [stats, recent, activity, well, budgets] = await Promise.all([
        readStats(parts),
        readRecent(parts),
        parts.activity.read(),
        parts.wellness.read(range),
        parts.budgets.list(),
      ]);
      return {
        ...stats,
        recent_activity: recent.items,
        cost_today: activity.costToday,
        hours: activity.hours,
        well,
        budgets,
      };
    },
    state: () => dashboardState(parts, range),
  };
}

async function dashboardState(parts: AdminParts, range: RangeName): Promise<Record<string, unknown>> {
  const { jobs, options } = parts;
  const now = parts.clock();
  const [figures, well, running, waiting, failed, recent, cards, budgets] = await Promise.all([
    readFigures(parts),
    parts.wellness.read(range),
    jobs.list({ where: { status: ["in_progress", "cancelling"] }, sort: "-updated_at", limit: SHOWN }),
    readInbox(parts, { limit: SHOWN, skip: 0 }),
    jobs.list({ where: failedSince(now, RANGES[range].length), sort: "-finished_at", limit: SHOWN }),
    recentLines(parts, now),
    readCards(parts),
    parts.budgets.list(),
  ]);
  const stamp = stampsIn("UTC");
  return {
    startable: startable(parts.agents),
    alerts: cards.alerts,
    figures: toFigures(figures, options.currency),
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
          { name: "running", count: counts.running },
        ],
      })),
      `Jobs started in the last ${RANGES[range].label}`,
    ),
    range: RANGES[range].label,
    api: withQuery("/admin/api/dashboard", { range }),
    ranges: Object.entries(RANGES).map(([name, { label }]) => ({
      label,
      href: name === "24h" ? "/admin/" : withQuery("/admin/", { range: name }),
      current: name === range,
    })),
    ends: toEnds(well, now),
    reasons: well.failures.map((group) => toReason(group, now, RANGES[range].length)),
    costs: toCosts(well, options.currency),
    costsArePartial: well.costsArePartial,
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
    recent,
    health: cards.health,
    cards: cards.cards,
  };
}

/** What ended, and how long it took. */
function toEnds({ completed, failed, p50, p95, range }: Wellbeing, now: Date) {
  const since = new Date(now.getTime() - RANGES[range].length).toISOString();
  const all = completed + failed;
  const took = (milliseconds: number | null) => (milliseconds === null ? "–" : formatDuration(milliseconds));
  const of = (status: string) => withQuery("/admin/jobs", { status, since });
  return [
    { label: "Completed", value: formatCount(completed), tone: "", href: of("completed") },
    { label: "Failed", value: formatCount(failed), tone: failed > 0 ? "bad" : "", href: of("failed") },
    {
      label: "Success rate",
      value: all === 0 ? "–" : `${Math.floor((1000 * completed) / all) / 10} %`,
      tone: "",
      href: "/admin/failures",
    },
    { label: "Median duration", value: took(p50), tone: "", href: "/admin/jobs?sort=-duration" },
    { label: "95 of 100 within", value: took(p95), tone: "", href: "/admin/jobs?sort=-duration" },
  ];
}

function toReason(group: FailureGroup, now: Date, length: number) {
  const since = new Date(now.getTime() - length).toISOString();
  return {
    reason: group.error || toLabel(group.stop_reason ?? "No error was recorded"),
    count: formatCount(group.count),
    last: timePiece(group.last_at, now).toString(),
    agents: group.agents.map(({ agent }) => agent).join(", "),
    href: withQuery("/admin/jobs", { status: "failed", failure: group.failure, since }),
  };
}

/** The dearest agents, with bars against the dearest. */
function toCosts({ costs }: Wellbeing, currency: string) {
  return costs.slice(0, SHOWN).map(({ agent, cost, jobs }) => ({
    agent,
    href: pathTo("agents", agent),
    cost: formatCost(cost, currency),
    each: `${formatCost(cost / jobs, currency)} a job`,
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

interface Figures {
  readonly running: number;
  readonly queued: number;
  readonly waiting: number;
  readonly failed: number;
  readonly completed: number;
  readonly jobs: number;
  readonly cases: number;
  readonly cost: number;
  readonly costIsPartial: boolean;
}

async function readFigures({ jobs, cases, activity, clock }: AdminParts): Promise<Figures> {
  const now = clock();
  const [jobCounts, caseCounts, failed, completed, view] = await Promise.all([
    jobs.countBy("status"),
    cases.countBy("status"),
    jobs.list({ where: failedSince(now, DAY), limit: 0 }),
    jobs.list({ where: { status: "completed", finished_at: { gte: now.getTime() - DAY } }, limit: 0 }),
    activity.read(),
  ]);
  const sum = (counts: Readonly<Record<string, number>>) =>
    Object.values(counts).reduce((total, count) => total + count, 0);
  return {
    running: (jobCounts.in_progress ?? 0) + (jobCounts.cancelling ?? 0),
    queued: jobCounts.stopped ?? 0,
    waiting: caseCounts.awaiting ?? 0,
    failed: failed.total,
    completed: completed.total,
    jobs: sum(jobCounts),
    cases: sum(caseCounts),
    cost: view.costToday,
    costIsPartial: view.costIsPartial,
  };
}

/** By the time a job ended, not by when it was created. */
function failedSince(now: Date, length: number) {
  return { status: "failed", finished_at: { gte: now.getTime() - length } };
}

function toFigures(figures: Figures, currency: string) {
  const { failed, waiting } = figures;
  return [
    {
      label: "Running",
      value: formatCount(figures.running),
      note: `${formatCount(figures.queued)} queued`,
      href: "/admin/jobs?status=in_progress",
      tone: "",
    },
    {
      label: "Waiting for a person",
      value: formatCount(waiting),
      note: waiting > 0 ? "open questions" : "inbox is empty",
      href: "/admin/inbox",
      tone: waiting > 0 ? "warn" : "",
    },
    {
      label: "Failed",
      value: formatCount(failed),
      note: "last 24 hours",
      href: "/admin/jobs?sort=-updated_at&status=failed",
      tone: failed > 0 ? "bad" : "",
    },
    {
      label: "Completed",
      value: formatCount(figures.completed),
      note: "last 24 hours",
      href: "/admin/jobs?sort=-updated_at&status=completed",
      tone: "",
    },
    {
      label: "All jobs",
      value: formatCount(figures.jobs),
      note: `${formatCount(figures.cases)} cases`,
      href: "/admin/jobs",
      tone: "",
    },
    {
      label: "Cost today",
      value: formatCost(figures.cost, currency),
      note: figures.costIsPartial ? "at least, since 00:00 UTC" : "since 00:00 UTC",
      href: "/admin/cases?sort=-total_cost",
      tone: "",
    },
  ];
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
