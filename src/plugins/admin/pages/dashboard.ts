import * as v from "valibot";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { DashboardSchema, RecentSchema, StatsSchema } from "../answers/entities.ts";
import { readInbox } from "../inbox/read-inbox.ts";
import { startable } from "../lists/jobs-list.ts";
import type { AdminParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { renderChart } from "../views/chart.ts";
import { elapsed, formatCost, formatCount, formatDuration } from "../views/format.ts";
import { duePiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { readCards } from "./cards.ts";
import { readRecent, toRecentLine } from "./recent.ts";
import { readStats } from "./stats.ts";

const DAY = 24 * 3_600_000;
const SHOWN = 6;

/** The dashboard, and the two API routes that return parts of it. */
export function dashboardRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: ["/admin/", "Dashboard page"],
      api: ["/admin/api/dashboard", "What the dashboard shows"],
      answer: "What the dashboard shows",
      schema: DashboardSchema,
      resource: () => dashboard(parts),
    }),
    ...resourceRoutes(parts, {
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
      api: ["/admin/api/recent-activity", "The last ten changes"],
      answer: "The last ten changes",
      schema: v.object({ items: v.array(RecentSchema) }),
      resource: () => ({
        page: "dashboard",
        fragment: "recent-activity",
        json: () => readRecent(parts),
        state: async () => ({
          recent: (await readRecent(parts)).items.map((item) => toRecentLine(item, parts.clock())),
        }),
      }),
    }),
  ];
}

function dashboard(parts: AdminParts): Resource {
  return {
    page: "dashboard",
    fragment: "dashboard",
    json: async () => {
      const [stats, recent, activity] = await Promise.all([
        readStats(parts),
        readRecent(parts),
        parts.activity.read(),
      ]);
      return {
        ...stats,
        recent_activity: recent.items,
        cost_today: activity.costToday,
        hours: activity.hours,
      };
    },
    state: () => dashboardState(parts),
  };
}

async function dashboardState(parts: AdminParts): Promise<Record<string, unknown>> {
  const { jobs, options } = parts;
  const now = parts.clock();
  const [figures, activity, running, waiting, failed, recent, cards] = await Promise.all([
    readFigures(parts),
    parts.activity.read(),
    jobs.list({ where: { status: ["in_progress", "cancelling"] }, sort: "-updated_at", limit: SHOWN }),
    readInbox(parts, { limit: SHOWN, skip: 0 }),
    jobs.list({ where: failedSince(now), sort: "-finished_at", limit: SHOWN }),
    readRecent(parts),
    readCards(parts),
  ]);
  return {
    startable: startable(parts.agents),
    alerts: cards.alerts,
    figures: toFigures(figures, options.currency),
    chart: renderChart(
      activity.hours.map(({ from, counts }) => ({
        label: `${new Date(from).toISOString().slice(11, 16)} UTC`,
        parts: [
          { name: "completed", count: counts.completed },
          { name: "failed", count: counts.failed },
          { name: "running", count: counts.running },
        ],
      })),
      "Jobs started in the last 24 hours",
    ),
    running: { total: formatCount(running.total), items: running.items.map((job) => toRunning(job, now)) },
    waiting: {
      total: formatCount(waiting.total),
      tone: waiting.total > 0 ? "alert" : "",
      items: waiting.items.map((item) => toWaiting(item, now)),
    },
    failed: { total: formatCount(failed.total), items: failed.items.map((job) => toFailed(job, now)) },
    recent: recent.items.map((item) => toRecentLine(item, now)),
    cards: cards.cards,
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
    jobs.list({ where: failedSince(now), limit: 0 }),
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
function failedSince(now: Date) {
  return { status: "failed", finished_at: { gte: now.getTime() - DAY } };
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
  return { name: job.name, href: pathTo("jobs", job.id), sub, status: statusPiece(job.status).toString() };
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
