import { client } from "agent-control-service/client";
import type { Desk } from "../../bench/desk/seed.ts";
import { attentionOf } from "./_desk-dashboard.ts";
import { budgetsOf } from "./_desk-page.ts";
import {
  type Case,
  groupBy,
  type Job,
  keyOf,
  type Reader,
  readJson,
  sum,
  type Truth,
} from "./_desk-truth.ts";

/** A sum that routes and the typed client say as pages do. */
export interface DeskSum {
  readonly what: string;
  readonly refuses?: (truth: Truth) => boolean;
  /** What is said to a reader. */
  readonly said: (desk: Desk, reader: Reader) => Promise<unknown>;
  readonly is: (truth: Truth) => unknown;
}

/** The header with the number of all that match. */
async function headerOf(desk: Desk, path: string, reader: Reader): Promise<number> {
  const response = await desk.server.request(path, { key: keyOf(desk, reader) });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return Number(response.headers.get("x-total-count"));
}
const header = (path: string, is: DeskSum["is"]): DeskSum => ({
  ...{ what: `X-Total-Count of ${path}`, is },
  said: (desk, reader) => headerOf(desk, path, reader),
});
const total = (path: string, is: (truth: Truth) => number): DeskSum => ({
  ...{ what: `total of ${path}`, is },
  said: async (desk, reader) => (await readJson<{ total: number }>(desk, path, reader)).total,
});

const inStatus = (jobs: readonly { readonly status: string }[], ...statuses: string[]) =>
  jobs.filter(({ status }) => statuses.includes(status)).length;
const countsOf = (items: readonly (Job | Case)[]) => ({
  total: items.length,
  running: inStatus(items, "in_progress", "cancelling", "awaiting"),
  completed: inStatus(items, "completed"),
  failed: inStatus(items, "failed", "cancelled"),
  by_status: Object.fromEntries(
    [...groupBy(items, ({ status }) => status)].map(([one, some]) => [one, some.length]),
  ),
});
const isOwner = ({ reader }: Truth) => reader === "owner";
const costsOf = (jobs: readonly Job[]) => sum(jobs.map(({ total_cost }) => total_cost));

/** Numbers of a metric, by its labels. */
async function metricOf(desk: Desk, name: string): Promise<Record<string, number>> {
  const text = await (await desk.server.request("/metrics")).text();
  const lines = [...text.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)$`, "gm"))];
  return Object.fromEntries(
    lines.map(([, labels, value]) => [labels!.replaceAll(/\w+="([^"]*)"/g, "$1"), Number(value)]),
  );
}
const metric = (name: string, is: (truth: Truth) => Record<string, number>): DeskSum => ({
  ...{ what: name, refuses: (truth) => !isOwner(truth), is },
  said: (desk) => metricOf(desk, name),
});
const byStatus = (items: readonly (Job | Case)[]) => countsOf(items).by_status;

interface AttentionItem {
  readonly kind: string;
  readonly count: number;
  readonly agent: string | null;
  readonly text: string;
}

export const DESK_SUMS: readonly DeskSum[] = [
  {
    what: "statistics",
    said: async (desk, reader) => {
      const { jobs, cases } = await readJson<Record<"jobs" | "cases", unknown>>(
        desk,
        "/admin/api/stats",
        reader,
      );
      return { jobs, cases };
    },
    is: ({ jobs, cases }) => ({ jobs: countsOf(jobs), cases: countsOf(cases) }),
  },
  {
    what: "what needs attention",
    said: async (desk, reader) =>
      (await readJson<{ items: AttentionItem[] }>(desk, "/attention", reader)).items.map(({ text }) => text),
    is: attentionOf,
  },
  {
    what: "held jobs of what needs attention",
    said: async (desk, reader) => {
      const { items } = await readJson<{ items: AttentionItem[] }>(desk, "/attention", reader);
      return items.filter(({ kind }) => kind === "held").map(({ agent, count }) => [agent, count]);
    },
    is: ({ jobs }) =>
      [...groupBy(jobs, (job) => (job.state === "held" ? job.agent_name : null))].map(([agent, some]) => [
        ...[agent, some.length],
      ]),
  },
  {
    what: "statistics of agents",
    said: async (desk, reader) => {
      const { items } = await readJson<{ items: { slug: string; statistics: object }[] }>(
        ...[desk, "/admin/api/agents", reader],
      );
      return Object.fromEntries(items.map(({ slug, statistics }) => [slug, statistics]));
    },
    is: ({ agents, jobs }) =>
      Object.fromEntries(
        agents.map((agent) => {
          const own = jobs.filter(({ agent_name }) => agent_name === agent);
          const completed = inStatus(own, "completed");
          const statistics = {
            ...{ total_jobs: own.length, completed_jobs: completed },
            failed_jobs: inStatus(own, "failed", "cancelled"),
            in_progress_jobs: inStatus(own, "in_progress"),
            success_rate: own.length === 0 ? 0 : Math.round((1000 * completed) / own.length) / 10,
          };
          return [agent, statistics];
        }),
      ),
  },
  header("/jobs?limit=1", ({ jobs }) => jobs.length),
  header("/jobs?limit=1&state=held", ({ jobs }) => jobs.filter(({ state }) => state === "held").length),
  header(
    "/jobs?limit=1&state=waiting_for_event",
    ({ jobs }) => jobs.filter(({ state }) => state === "waiting_for_event").length,
  ),
  header(
    "/jobs?limit=1&tag=region:eu",
    ({ jobs }) => jobs.filter(({ tags }) => tags.includes("region:eu")).length,
  ),
  {
    what: "total of the typed client",
    said: async (desk, reader) => {
      const service = client(desk.server.url, keyOf(desk, reader));
      const failed = { status: "failed", limit: 1 } as const;
      const [all, some] = await Promise.all([
        service.list(undefined, { limit: 1 }),
        service.list(undefined, failed),
      ]);
      return [all.total, some.total];
    },
    is: ({ jobs }) => [jobs.length, inStatus(jobs, "failed")],
  },
  total("/admin/api/jobs?limit=1&status=failed", ({ jobs }) => inStatus(jobs, "failed")),
  total("/admin/api/cases?limit=1", ({ cases }) => cases.length),
  total("/admin/api/inbox?limit=1", ({ questions }) => questions.length),
  total(
    "/admin/api/inbox?limit=1&assigned_to=ben",
    ({ questions }) => questions.filter(({ question }) => question.assigned_to === "ben").length,
  ),
  total("/admin/api/deleted?limit=1", ({ deleted }) => deleted.length),
  total("/admin/api/deleted-cases?limit=1", ({ deletedCases }) => deletedCases.length),
  {
    what: "cost of the jobs with a tag",
    said: async (desk, reader) =>
      (await readJson<{ cost: number }>(desk, "/admin/api/jobs?limit=1&tag=region:eu", reader)).cost,
    is: ({ jobs }) => costsOf(jobs.filter(({ tags }) => tags.includes("region:eu"))),
  },
  {
    what: "preview of an action on the failed jobs",
    refuses: ({ reader }) => reader !== "owner" && reader !== "acme",
    said: async (desk, reader) => {
      const json = { kind: "jobs", action: "delete", filter: { status: "failed" } };
      const response = await desk.server.request("/admin/api/bulk", { key: keyOf(desk, reader), json });
      const { count, left_out, cost } = (await response.json()) as Record<string, number>;
      return { count, left_out, cost };
    },
    is: ({ jobs }) => {
      const failed = jobs.filter(({ status }) => status === "failed");
      return { count: failed.length, left_out: 0, cost: costsOf(failed) };
    },
  },
  metric("svc_jobs", ({ jobs }) => byStatus(jobs)),
  metric("svc_cases", ({ cases }) => byStatus(cases)),
  metric("svc_agent_spent", (truth) =>
    Object.fromEntries(budgetsOf(truth).map(({ agent, period, spent }) => [`${agent},${period}`, spent])),
  ),
  metric("svc_attention", (truth) => {
    const held = groupBy(truth.jobs, (job) => (job.state === "held" ? job.agent_name : null));
    const used = budgetsOf(truth).filter(({ spent, budget }) => spent >= 0.8 * budget);
    const dead = truth.deliveries.dead.length;
    return {
      ...(dead > 0 && { "deliveries,": dead }),
      ...Object.fromEntries([...held].map(([agent, some]) => [`held,${agent}`, some.length])),
      ...Object.fromEntries(used.map(({ agent }) => [`budget,${agent}`, 1])),
    };
  }),
];
