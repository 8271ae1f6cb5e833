import { countOf } from "../../src/core/base/count-of.ts";
import { shownLineOf } from "../../src/core/models/failure.ts";
import { formatCount, formatDuration } from "../../src/plugins/admin/views/format.ts";
import { byEnd, cost, countIn, type DeskPage, endedIn, reasonsOf, trendsOf, where } from "./_desk-page.ts";
import {
  DAY,
  dayOf,
  groupBy,
  newestFirst,
  seesWholeAgents,
  sum,
  type Truth,
  type Use,
} from "./_desk-truth.ts";

// Failures

const PERIODS = { "1": "24 hours", "7": "7 days", "30": "30 days", "": "30 days" } as const;
const COLUMNS = 14;

function failuresPage(days: keyof typeof PERIODS): DeskPage {
  const length = days === "" ? Number.POSITIVE_INFINITY : Number(days) * DAY;
  return {
    path: where("/admin/failures", days === "" ? {} : { days }),
    lines: (truth) => {
      const failed = endedIn(truth, length, "failed");
      const reasons = reasonsOf(failed);
      const shown = days === "" ? 30 * DAY : length;
      const step = shown / COLUMNS;
      const states = new Map(trendsOf(truth).map(({ failure, state }) => [failure, state]));
      return [
        `${countOf(failed.length, "failed job")}, ${countOf(reasons.length, "reason")}.`,
        "24 hours 7 days 30 days All",
        ...reasons.flatMap(([failure, some]) => {
          const ended = byEnd(some);
          const times = ended.map(({ finished_at }) => Date.parse(finished_at!));
          const counts = Array.from({ length: COLUMNS }, (_, at) => {
            const from = truth.now - shown + at * step;
            return times.filter((time) => time >= from && (at === COLUMNS - 1 || time < from + step)).length;
          });
          const agents = new Set(ended.slice(0, 20).map((job) => `${job.agent_name} ${job.agent_version}`));
          const last = counts.at(-1)!;
          const state = states.get(failure);
          return [
            `${formatCount(some.length)} ${shownLineOf(ended[0]!.error)}`,
            `${state ? `${state} ` : ""}Since ${ended.at(-1)!.finished_at} , last ${ended[0]!.finished_at} ${[...agents].join(" ")}`,
            `Over the last ${PERIODS[days]}: at most ${countOf(Math.max(1, ...counts), "job")} at a time, ${last === 0 ? "none" : countOf(last, "job")} at the end`,
            `Show ${countOf(some.length, "job")}`,
          ];
        }),
      ];
    },
  };
}

// Agents

function statisticsOf({ jobs }: Truth, agent: string) {
  const own = jobs.filter(({ agent_name }) => agent_name === agent);
  const [completed, failed] = [countIn(own, "completed"), countIn(own, "failed") + countIn(own, "cancelled")];
  const ended = completed + failed;
  const rate =
    ended === 0 ? [] : [["Success rate", `${Math.floor((1000 * completed) / ended) / 10}%`, "of ended jobs"]];
  return [
    ["Jobs", formatCount(own.length), "in total"],
    ["Open", formatCount(own.length - ended), "not ended"],
    ["Completed", formatCount(completed), ""],
    ["Failed or cancelled", formatCount(failed), ""],
    ...rate,
  ] as [string, string, string][];
}

const TITLES: Readonly<Record<string, string>> = {
  "refund-desk": "Refund desk",
  "orders-export": "Orders export",
  "support-triage": "Support triage",
  "held-desk": "Held desk",
};
const healthOf = (truth: Truth, agent: string) => {
  const own = truth.jobs.filter(({ agent_name }) => agent_name === agent);
  const failed = countIn(own, "failed") + countIn(own, "cancelled");
  if (own.length > 0 && failed > own.length / 2) return "Degraded";
  return own.some(({ state }) => state === "running") ? "Busy" : "Available";
};

const AGENTS_PAGE: DeskPage = {
  path: "/admin/agents",
  lines: (truth) =>
    truth.agents.flatMap((agent) => [
      `${TITLES[agent]} v3.1.0 ${healthOf(truth, agent)}`,
      ...statisticsOf(truth, agent).map(([label, value]) => `${label} ${value}`),
    ]),
};

function agentPage(agent: string): DeskPage {
  return {
    path: `/admin/agents/${agent}`,
    refuses: ({ agents }) => (agents.includes(agent) ? undefined : 404),
    lines: (truth) => {
      const own = truth.jobs.filter(({ agent_name }) => agent_name === agent);
      const done = newestFirst(
        own.filter(({ status }) => status === "completed"),
        ({ created_at }) => created_at,
      );
      const durations = done
        .slice(0, 50)
        .map((job) => Date.parse(job.finished_at!) - Date.parse(job.created_at))
        .sort((a, b) => a - b);
      const median = durations[Math.ceil(durations.length / 2) - 1];
      const failed = newestFirst(
        own.filter(({ status }) => status === "failed"),
        ({ updated_at }) => updated_at,
      );
      return [
        `${healthOf(truth, agent)} ${agent} v3.1.0`,
        ...statisticsOf(truth, agent).map((one) => one.filter(Boolean).join(" ")),
        ...(median === undefined ? [] : [`Median duration ${formatDuration(median)} of the last jobs`]),
        ...failed.slice(0, 5).map((job) => `${job.name} ${shownLineOf(job.error)} ${job.updated_at}`),
        ...(truth.scheduled?.agent_name === agent ? ["yearly 0 3 1 1 * 2031-01-01T03:00:00.000Z"] : []),
      ];
    },
    passing: /^(Version that runs|Id) /,
  };
}

// Models

function modelsPage(days: number): DeskPage {
  return {
    path: where("/admin/models", days === 30 ? {} : { days: String(days) }),
    refuses: ({ reader }) => (seesWholeAgents(reader) ? undefined : 403),
    lines: (truth) => {
      const since = dayOf(truth.now - (days - 1) * DAY);
      const uses = truth.uses.filter(({ day }) => day >= since);
      const total = (some: readonly Use[], of: (use: Use) => number) => sum(some.map(of));
      const row = (name: string, some: readonly Use[]) => {
        const failed = total(some, (use) => use.failed);
        const numbers = [
          total(some, (use) => use.input_tokens),
          total(some, (use) => use.cached_tokens),
          total(some, (use) => use.output_tokens),
        ].map(formatCount);
        return `${[name, formatCount(total(some, (use) => use.calls)), failed === 0 ? "" : formatCount(failed), ...numbers, cost(total(some, (use) => use.cost))].join(" | ")} |`.replaceAll(
          "  ",
          " ",
        );
      };
      const tables = (["model", "agent", "day"] as const).map((key) =>
        [...groupBy(uses, (use) => use[key])].sort(([a, x], [b, y]) =>
          key === "day" ? (a < b ? 1 : -1) : total(y, (use) => use.cost) - total(x, (use) => use.cost),
        ),
      );
      const most = Math.max(...tables[2]!.map(([, some]) => total(some, (use) => use.cost)));
      const dayAt = (n: number) => dayOf(Date.parse(since) + n * DAY);
      return [
        ...(days === 1 ? [] : [`Calls of models in the last ${days} days, failed attempts included.`]),
        cost(roundUp(most)),
        `Cost of calls ${days === 1 ? "of today, UTC" : `in the last ${days} days`}: ${cost(total(uses, (use) => use.cost))}`,
        [...new Set([0, Math.floor(days / 2), days - 1])].map(dayAt).join(" "),
        ...tables.flatMap((groups) => [...groups.map(([name, some]) => row(name, some)), row("All", uses)]),
      ];
    },
  };
}

/** The next of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 and 10 times a power of ten. */
function roundUp(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((value) => value >= most)!;
}

/** Failures by reason, agents and models. */
export const AGENT_PAGES: readonly DeskPage[] = [
  ...(["1", "7", "30", ""] as const).map(failuresPage),
  AGENTS_PAGE,
  ...Object.keys(TITLES).map(agentPage),
  ...[1, 7, 30, 366].map(modelsPage),
];
