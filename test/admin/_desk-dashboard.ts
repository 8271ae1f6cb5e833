import { countOf } from "../../src/core/base/count-of.ts";
import { shownLineOf } from "../../src/core/models/failure.ts";
import { formatCount, formatDuration } from "../../src/plugins/admin/views/format.ts";
import {
  budgetsOf,
  byEnd,
  cost,
  countIn,
  type DeskPage,
  dueOf,
  endedIn,
  inState,
  isAsked,
  reasonsOf,
  SHOWN,
  trendsOf,
  urgentFirst,
  where,
} from "./_desk-page.ts";
import { ASK, INBOX } from "./_desk-questions.ts";
import { DAY, dayOf, groupBy, sum, type Truth } from "./_desk-truth.ts";

// Navigation

/** The numbers beside the pages of the navigation. */
export function navigationLines(truth: Truth): string[] {
  const failed = endedIn(truth, DAY, "failed").length;
  return [
    ...(truth.questions.length > 0 ? [`Inbox ${truth.questions.length}`] : []),
    ...(failed > 0 && !isAsked(truth) ? [`Failures ${failed}`] : []),
  ];
}

// Dashboard

const HOUR = DAY / 24;
const RANGES = {
  "1h": { last: "hour", length: HOUR, step: HOUR / 12, days: 1, costs: "today" },
  "24h": { last: "24 hours", length: DAY, step: HOUR, days: 1, costs: "today" },
  "7d": { last: "7 days", length: 7 * DAY, step: 6 * HOUR, days: 7, costs: "7 days" },
  "30d": { last: "30 days", length: 30 * DAY, step: DAY, days: 30, costs: "30 days" },
} as const;
type Range = keyof typeof RANGES;

const phrase = (count: number, text: string, isAlways = false) =>
  count > 0 || isAlways ? [`${formatCount(count)} ${text}`] : [];

function sentence(truth: Truth, range: Range): string {
  const { last, length } = RANGES[range];
  const failed = endedIn(truth, length, "failed");
  const most = reasonsOf(failed)[0]?.[1].length ?? 0;
  const some = most === failed.length ? "all" : `${formatCount(most)} of them`;
  const inOne = most > 1 ? `, ${some} for one reason` : "";
  return [
    ...phrase(inState(truth.jobs, "running"), "running", true),
    ...phrase(inState(truth.jobs, "held"), "held"),
    ...phrase(inState(truth.jobs, "queued"), "queued"),
    ...phrase(truth.questions.length, truth.questions.length === 1 ? "open question" : "open questions"),
    ...phrase(failed.length, `failed in the last ${last}${inOne}`, true),
  ].join(" ");
}

/** What needs a person, in order. */
export function attentionOf(truth: Truth): string[] {
  const held = groupBy(truth.jobs, (job) => (job.state === "held" ? job.agent_name : null));
  const trends = trendsOf(truth).map(({ state, jobs }) => {
    const first = byEnd(jobs).at(-1)!;
    const code = `${first.agent_name} ${first.agent_version}`;
    const failed = `${countOf(jobs.length, "job")} failed`;
    const ago = formatDuration(truth.now - Date.parse(first.finished_at!));
    const what =
      state === "New"
        ? `${failed} for a new reason in ${code}, first ${ago} ago`
        : `${failed} in a day for a reason that grows, in ${code}`;
    return `${what}: ${shownLineOf(first.error)}`;
  });
  const overdue = truth.questions.filter(
    ({ question: { deadline } }) => deadline && Date.parse(deadline) < truth.now,
  );
  const dead = truth.deliveries.dead.length;
  const areDead = dead === 1 ? "is a dead letter" : "are dead letters";
  return [
    ...(dead > 0 ? [`${countOf(dead, "event")} could not be delivered and ${areDead}.`] : []),
    ...[...held].map(
      ([agent, { length }]) =>
        `${countOf(length, "job")} of ${agent} ${length === 1 ? "is" : "are"} held: the code changed. ${length === 1 ? "It does" : "They do"} not run until somebody decides.`,
    ),
    ...trends,
    ...(overdue.length > 0 ? [`${countOf(overdue.length, "question")} past the deadline.`] : []),
    ...budgetsOf(truth)
      .filter(({ spent, budget }) => spent >= 0.8 * budget)
      .map(({ agent, period, spent, budget }) => {
        const used = spent >= budget ? "all" : `${Math.floor((spent / budget) * 100)}%`;
        return `${agent} has used ${used} of its budget of the ${period}.`;
      }),
  ];
}

function monthOf(truth: Truth): { today: number; month: number; forecast: number | null } {
  const today = dayOf(truth.now);
  const first = `${today.slice(0, 7)}-01`;
  if (truth.reader !== "owner") {
    const since = (day: string) =>
      sum(truth.jobs.filter(({ created_at }) => created_at >= day).map(({ total_cost }) => total_cost));
    return { today: since(today), month: since(first), forecast: null };
  }
  const between = (from: string, until: string) =>
    sum(truth.uses.filter(({ day }) => day >= from && day < until).map((use) => use.cost));
  const [spent, month] = [between(today, "9"), between(first, "9")];
  const each = between(dayOf(truth.now - 7 * DAY), today) / 7;
  const end = new Date(truth.now);
  const daysLeft =
    new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate() - end.getUTCDate();
  return { today: spent, month, forecast: month - spent + Math.max(spent, each) + daysLeft * each };
}

function tileLines(truth: Truth, range: Range): string[] {
  const { last, length } = RANGES[range];
  const done = endedIn(truth, length, "completed");
  const failed = endedIn(truth, length, "failed");
  const durations = done
    .map((job) => Date.parse(job.finished_at!) - Date.parse(job.created_at))
    .sort((a, b) => a - b);
  const at = (share: number) => formatDuration(durations[Math.ceil(durations.length * share) - 1]!);
  const all = done.length + failed.length;
  const rate = all === 0 ? "–" : `${Math.floor((1000 * done.length) / all) / 10}%`;
  const { today, month, forecast } = monthOf(truth);
  const byEndOfMonth = forecast === null ? "" : `, about ${cost(forecast)} by its end`;
  return [
    `Completed, last ${last} ${rate} ${formatCount(done.length)} completed, ${formatCount(failed.length)} failed`,
    ...(done.length === 0 ? [] : [`Median duration ${at(0.5)} p95 ${at(0.95)}`]),
    `${truth.reader === "owner" ? "Cost today" : "Cost of jobs started today"} ${cost(today)} ${cost(month)} this month${byEndOfMonth}`,
  ];
}

const FATES = ["completed", "failed", "cancelled"] as const;

function chartLines(truth: Truth, range: Range): string[] {
  const { last, length, step } = RANGES[range];
  const end = Math.floor(truth.now / step) * step;
  const columns = Array.from({ length: length / step }, (_, at) => {
    const from = end - (length / step - 1 - at) * step;
    const of = truth.jobs.filter(({ created_at }) => {
      const created = Date.parse(created_at);
      return created >= from && created < from + step;
    });
    const counts = FATES.map((fate) => countIn(of, fate));
    const open = of.length - counts.reduce((a, b) => a + b);
    return { from, counts: [...counts, open], all: of.length };
  });
  const say = (counts: readonly number[]) => counts.map((count, at) => `${count} ${[...FATES, "open"][at]}`);
  const sums = [0, 1, 2, 3].map((at) => columns.reduce((all, { counts }) => all + counts[at]!, 0));
  const most = Math.max(...columns.map(({ all }) => all));
  const stamp = (from: number) => `${new Date(from).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return [
    ...(/\d/.test(last) ? [`Jobs started, last ${last} completed failed cancelled open`] : []),
    String(niceTop(most)),
    `Jobs started in the last ${last}: ${countOf(
      columns.reduce((all, one) => all + one.all, 0),
      "job",
    )} (${say(sums).join(", ")})`,
    ...columns
      .filter(({ all }) => all > 0)
      .map(
        ({ from, counts }) =>
          `${stamp(from)}: ${say(counts)
            .filter((one) => !one.startsWith("0 "))
            .join(", ")}`,
      ),
    `${[0, Math.floor(columns.length / 2)].map((at) => new Date(columns[at]!.from).toISOString()).join(" ")} now`,
  ];
}

/** The smallest of 1, 1.5, 2, 2.5, 3, 4, 5, 6 and 8 times a power of ten, and at least 4, that the columns stay below. */
function niceTop(most: number): number {
  for (let power = 1; ; power *= 10)
    for (const factor of [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8])
      if (factor * power >= Math.max(4, most)) return factor * power;
}

function costLines(truth: Truth, range: Range): string[] {
  const { days, costs: of } = RANGES[range];
  const first = dayOf(truth.now - (days - 1) * DAY);
  const started = groupBy(truth.jobs, (job) => (job.created_at >= first ? job.agent_name : null));
  const spent =
    truth.reader === "owner"
      ? [...groupBy(truth.uses, ({ agent, day }) => (day >= first ? agent : null))].map(
          ([agent, uses]) => [agent, sum(uses.map((use) => use.cost))] as const,
        )
      : [...started].map(([agent, jobs]) => [agent, sum(jobs.map((job) => job.total_cost))] as const);
  const costs = spent
    .filter(([, amount]) => amount > 0)
    .sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .map(
      ([agent, amount]) =>
        `${agent} ${cost(amount)} · ${countOf(started.get(agent)?.length ?? 0, "job")} started`,
    );
  const budgets = budgetsOf(truth).map(
    ({ agent, period, budget, spent }) =>
      `${agent} ${cost(spent)} of ${cost(budget)} ${period === "day" ? "today" : "this month"}`,
  );
  const all = [...budgets, ...costs];
  const title = `Cost by agent ${truth.reader === "owner" ? "" : "jobs of "}${of}, UTC${truth.reader === "owner" ? " By model" : ""}`;
  return [...(/\d/.test(title) ? [title] : []), ...(all.length > 0 ? [all.join(" ")] : [])];
}

function dashboardPage(range: Range): DeskPage {
  const { last, length } = RANGES[range];
  return {
    path: where("/admin/", range === "24h" ? {} : { range }),
    // Who is only asked begins at the inbox.
    entries: (truth) => (isAsked(truth) ? truth.questions.length : 0),
    lines: (truth, turn) => {
      if (isAsked(truth)) return INBOX.lines(truth, turn);
      const attention = attentionOf(truth);
      const failed = endedIn(truth, length, "failed");
      const { jobs, cases } = truth;
      const reasons = reasonsOf(failed).slice(0, SHOWN);
      return [
        "1 hour 24 hours 7 days 30 days",
        sentence(truth, range),
        ...(attention.length > 0 ? [`Needs attention ${attention.length}`] : []),
        ...attention.filter((text) => /\d/.test(text)),
        ...tileLines(truth, range),
        ...(truth.reader === "owner"
          ? [
              "Health 1 problem · 0 of 16 slots in use",
              `Holds ${countOf(jobs.length, "job")}, ${countOf(cases.length, "case")}`,
              ...["Running 0 of 16", "Queued 0", "Delivered 0"],
              `Waiting ${formatCount(truth.deliveries.waiting.length)}`,
              `Dead letters ${formatCount(truth.deliveries.dead.length)}`,
            ]
          : []),
        `Waiting for a person ${formatCount(truth.questions.length)} Inbox`,
        ...urgentFirst(truth)
          .slice(0, SHOWN)
          .map(
            ({ question, name, job_id }) =>
              `${question.question} ${name} · ${job_id}${dueOf(question.deadline)}`,
          ),
        `Running now ${inState(jobs, "running")} All running`,
        ...chartLines(truth, range),
        ...costLines(truth, range),
        `Failures, last ${last} ${formatCount(failed.length)} By reason All failed`,
        ...reasons.flatMap(([, some]) => {
          const [newest] = byEnd(some);
          const agents = new Set(
            byEnd(some)
              .slice(0, 20)
              .map((job) => job.agent_name),
          );
          return [
            `${formatCount(some.length)} ${shownLineOf(newest!.error)}`,
            `Last ${newest!.finished_at} · ${[...agents].join(", ")}`,
          ];
        }),
        ...byEnd(failed)
          .slice(0, SHOWN)
          .map((job) => `${job.name} ${job.error} ${new Date(job.finished_at!).toISOString()}`),
      ];
    },
    ...ASK,
    passing: /^(Kind|On disk|Writes|Up for) | · up for .*$/,
  };
}

/** The dashboard over each time. */
export const DASHBOARDS: readonly DeskPage[] = (Object.keys(RANGES) as Range[]).map(dashboardPage);
