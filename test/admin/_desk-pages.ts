import { deskFateOf } from "../../bench/desk/seed.ts";
import { countOf } from "../../src/core/base/count-of.ts";
import { formatCount } from "../../src/plugins/admin/views/format.ts";
import { labelOf } from "../../src/plugins/admin/views/pieces.ts";
import { AGENT_PAGES } from "./_desk-agents.ts";
import { DASHBOARDS } from "./_desk-dashboard.ts";
import { LISTS } from "./_desk-lists.ts";
import {
  cost,
  costOrNone,
  type DeskPage,
  durationOf,
  inState,
  ofTurn,
  onlyOwner,
  operates,
  pagerLines,
  SHOWN,
  urgentFirst,
  where,
} from "./_desk-page.ts";
import { alikePage, INBOX } from "./_desk-questions.ts";
import { type Delivery, groupBy, newestFirst, type Truth } from "./_desk-truth.ts";

// Schedules, events, deliveries, what was deleted

const SCHEDULES: DeskPage = {
  path: "/admin/schedules",
  lines: (truth) => {
    if (truth.scheduled === undefined) return [];
    const { agent_name, status } = truth.scheduled;
    const acts = operates(truth) ? "Run now yearly Pause yearly " : "";
    return [
      `yearly ${agent_name} | 0 3 1 1 * UTC | 2031-01-01T03:00:00.000Z | not by plan | ${labelOf(status)} Show | ${acts}|`,
    ];
  },
};

const eventTabs = ({ events, jobs }: Truth) =>
  `Received ${formatCount(events.length)} Waiting ${formatCount(inState(jobs, "waiting_for_event"))}`;

const EVENTS: DeskPage = {
  path: "/admin/events",
  refuses: onlyOwner,
  entries: ({ events }) => events.length,
  turns: Number.POSITIVE_INFINITY,
  lines: (truth, turn) => [
    eventTabs(truth),
    ...ofTurn(
      newestFirst(truth.events, ({ at }) => at),
      turn,
    ).flatMap(({ id, name, at, data, jobs }) => [
      `${name} ${id}`,
      `n ${data.n}`,
      `| ${at} | ${jobs.join(", ")} |`,
    ]),
    ...pagerLines(truth.events.length, turn),
  ],
};

const WAITS: DeskPage = {
  path: "/admin/events/waiting",
  refuses: onlyOwner,
  entries: ({ jobs }) => inState(jobs, "waiting_for_event"),
  turns: Number.POSITIVE_INFINITY,
  lines: (truth, turn) => {
    const waits = truth.jobs
      .filter(({ state }) => state === "waiting_for_event")
      .map(({ id }) => `payment matched by n | ${id} | No deadline |`)
      .sort();
    return [eventTabs(truth), ...ofTurn(waits, turn), ...pagerLines(waits.length, turn)];
  },
};

function deliveriesPage(state: Delivery["state"]): DeskPage {
  return {
    path: where("/admin/deliveries", state === "dead" ? {} : { state }),
    refuses: onlyOwner,
    entries: ({ deliveries }) => deliveries[state].length,
    turns: Number.POSITIVE_INFINITY,
    lines: ({ deliveries }, turn) => {
      // An id begins with the time of the message, in a form that sorts.
      const listed = newestFirst(deliveries[state], ({ id }) => id.slice(0, 9));
      const [dead, waiting, all] = [deliveries.dead, deliveries.waiting, listed].map(({ length }) =>
        formatCount(length),
      );
      return [
        `Dead letters ${dead} Waiting ${waiting}`,
        ...(state === "dead" ? [`${all} in total Send again Drop… all ${all}`] : []),
        ...ofTurn(listed, turn).map(
          ({ id, type, stream, target, attempts, error, created_at }) =>
            `${state === "dead" ? "| " : ""}${type} ${id} | ${stream} | ${target} | ${formatCount(attempts)} |${error ? ` ${error}` : ""} | ${created_at} |`,
        ),
        ...pagerLines(listed.length, turn),
        ...["Delivered 0", `Waiting ${waiting}`, `Dead letters ${dead}`],
      ];
    },
  };
}

/** What the palette finds: tags with their counts, and the newest jobs, the most urgent questions, the newest cases. */
function findPage(text: string): DeskPage {
  const has = (name: string) => name.toLowerCase().includes(text.toLowerCase());
  return {
    path: where("/admin/find", { q: text }),
    lines: (truth) => {
      const tagged = groupBy(
        truth.jobs.flatMap(({ tags }) => tags),
        (tag) => (has(tag) ? tag : null),
      );
      const tags = [...tagged].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
      const newest = <T extends { id: string; name: string; created_at: string }>(items: readonly T[]) =>
        newestFirst(
          items.filter(({ id, name }) => has(id) || has(name)),
          ({ created_at }) => created_at,
        );
      const groups = [
        tags.map(([tag, some]) => `Tag ${tag} ${countOf(some.length, "job")}`),
        newest(truth.jobs).map(({ id, name, state }) => `Job ${name} ${id} · ${labelOf(state)}`),
        urgentFirst(truth)
          .filter(({ case_id, name, question }) => [case_id, name, question.question].some(has))
          .map(({ question, name }) => `Question ${question.question} ${name}`),
        newest(truth.cases).map(({ id, name, status }) => `Case ${name} ${id} · ${labelOf(status)}`),
      ];
      const found = groups.flatMap((group, at) => {
        const kind = ["", "Job", "", "Case"][at];
        const all =
          kind && group.length > SHOWN
            ? [`${kind} All ${countOf(group.length, kind.toLowerCase())} with “${text}”`]
            : [];
        return [...group.slice(0, SHOWN), ...all];
      });
      return [countOf(found.length, "result"), ...found];
    },
  };
}

/** The head of a job's page, and its cases. */
function jobPage(n: number): DeskPage {
  const id = `job-${n}`;
  return {
    path: `/admin/jobs/${id}`,
    refuses: ({ jobs }) => (jobs.some((job) => job.id === id) ? undefined : 404),
    within: ["<dl>", '<section class="panel" aria-labelledby="cases-title"'],
    lines: (truth) => {
      const job = truth.jobOf(id);
      const cases = truth.cases.filter(({ job_id }) => job_id === id);
      return [
        `Duration ${durationOf(job, truth.now)}`,
        `Cost ${cost(job.total_cost)}`,
        `Cases ${formatCount(job.case_count)}`,
        `Runs ${deskFateOf(n) === "retried" ? 2 : 1}`,
        `Cases ${formatCount(cases.length)}`,
        ...cases
          .sort((a, b) => (a.created_at + a.id < b.created_at + b.id ? -1 : 1))
          .map(
            (one) =>
              `${labelOf(one.status)} | ${one.name} ${one.id} | ${formatCount(one.update_count)} | ${costOrNone(one.total_cost)} | ${one.updated_at} |`,
          ),
      ];
    },
  };
}

/** The number of updates of a case, and what it has cost. */
function casePage(n: number): DeskPage {
  const id = `job-${n}-0`;
  return {
    path: `/admin/cases/${id}`,
    refuses: ({ cases }) => (cases.some((item) => item.id === id) ? undefined : 404),
    within: ['<section class="panel" aria-labelledby="updates-title"', '<dl class="facts"'],
    lines: ({ cases }) => {
      const item = cases.find((one) => one.id === id)!;
      return [`Updates ${formatCount(item.update_count)}`, `Cost ${cost(item.total_cost)}`];
    },
    passing: /^(?!(?:Updates|Cost) ).*$/,
  };
}

const FIRST = Array.from({ length: 100 }, (_, n) => n);
const FATES_OF_JOBS = FIRST.filter((n) => FIRST.findIndex((one) => deskFateOf(one) === deskFateOf(n)) === n);

const SERVER: DeskPage = {
  path: "/admin/server",
  refuses: onlyOwner,
  lines: ({ jobs, cases }) => [`Jobs ${formatCount(jobs.length)}`, `Cases ${formatCount(cases.length)}`],
  passing: /^(?!(?:Jobs|Cases) ).*$/,
};

/** Every page of the admin interface that shows figures of what is stored. */
export const DESK_PAGES: readonly DeskPage[] = [
  ...DASHBOARDS,
  ...LISTS,
  INBOX,
  ...AGENT_PAGES,
  ...[SCHEDULES, EVENTS, WAITS, deliveriesPage("dead"), deliveriesPage("waiting"), SERVER],
  ...["customer:c1", "region", "HL-2", "HL-132", "nothing of it"].map(findPage),
  // One of each fate, of which some are seen by each reader.
  ...FATES_OF_JOBS.map(jobPage),
  ...[3, 13, 43, 132, 223].map(casePage),
  ...[32, 132, 232].map(alikePage),
];
