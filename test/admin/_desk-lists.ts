import { countOf } from "../../src/core/base/count-of.ts";
import { shownLineOf } from "../../src/core/models/failure.ts";
import { formatBytes, formatCount } from "../../src/plugins/admin/views/format.ts";
import { labelOf } from "../../src/plugins/admin/views/pieces.ts";
import {
  cost,
  costOrNone,
  type DeskPage,
  durationOf,
  isBetween,
  ofTurn,
  operates,
  pagerLines,
  rangeOf,
  where,
} from "./_desk-page.ts";
import { type Case, type Job, newestFirst, sum, type Truth } from "./_desk-truth.ts";

// Lists

const TABS = {
  jobs: [
    ...["running", "stuck", "sleeping", "waiting_for_event", "waiting_for_child", "chat", "awaiting"],
    ...["held", "pulled", "queued", "parked", "completed", "failed", "cancelled", "cancelling"],
  ],
  cases: ["in_progress", "awaiting", "stopped", "completed", "failed", "cancelled", "cancelling"],
} as const;
const ACTIONS = { jobs: "Stop… Retry… Continue held… Restart… Delete…", cases: "Delete…" } as const;
const STEADY = ["running", "in_progress", "awaiting", "completed", "failed"];

function stateOf(item: Job | Case): string {
  if (!("state" in item)) return item.status;
  return item.state === "waiting_for_answer" ? "awaiting" : item.state;
}

/** Tabs, rows and sums of a list. */
function listLines<E extends Job | Case>(
  kind: "jobs" | "cases",
  truth: Truth,
  {
    found,
    status,
    row,
    turn,
    suffix = "",
    chips = [],
  }: {
    found: readonly E[];
    status?: string;
    row: (item: E) => string;
    turn: number;
    suffix?: string;
    chips?: string[];
  },
): string[] {
  const count = (one: string) => found.filter((item) => stateOf(item) === one).length;
  const tabs = (TABS[kind] as readonly string[])
    .filter((one) => count(one) > 0 || STEADY.includes(one) || one === status)
    .filter((one) => kind === "jobs" || one !== "running")
    .map((one) => `${labelOf(one)} ${formatCount(count(one))}`);
  const listed = found.filter((item) => status === undefined || stateOf(item) === status);
  const noun = listed.length === 1 ? kind.slice(0, -1) : kind;
  const range = `${rangeOf(listed.length, turn)} ${noun}`;
  const pick = operates(truth) ? "| " : "";
  return [
    [`All ${formatCount(found.length)}`, ...tabs].join(" "),
    ...chips,
    ...(listed.length === 0
      ? []
      : [
          `${range}${operates(truth) ? ` all ${formatCount(listed.length)} that match ${ACTIONS[kind]}` : ""}`,
          ...ofTurn(
            newestFirst(listed, ({ created_at }) => created_at),
            turn,
          ).map((item) => `${pick}${row(item)}`),
          `${range}${suffix} Download CSV JSON Rows 25 50 100 Previous Next`,
        ]),
  ];
}

function jobRow(job: Job, now: number): string {
  const failed =
    job.failed_cases === 0
      ? ""
      : `${formatCount(job.failed_cases)} of ${countOf(job.case_count, "case")} failed`;
  const error = job.status === "failed" ? shownLineOf(job.error) : "";
  const name = [job.name, job.id, error, ...job.tags, failed].filter(Boolean).join(" ");
  return [
    ...[labelOf(job.state), name, job.agent_name, formatCount(job.case_count), costOrNone(job.total_cost)],
    ...[durationOf(job, now), `${job.created_at} ${job.updated_at} |`],
  ].join(" | ");
}

function caseRow(item: Case, now: number): string {
  const error = item.status === "failed" ? shownLineOf(item.error) : "";
  return [
    ...[labelOf(item.status), [item.name, item.id, error].filter(Boolean).join(" "), item.job_id],
    ...[formatCount(item.update_count), costOrNone(item.total_cost), durationOf(item, now)],
    `${item.created_at} ${item.updated_at} |`,
  ].join(" | ");
}

interface JobFilter {
  readonly query: Readonly<Record<string, string>>;
  readonly finds: (job: Job, now: number) => boolean;
  /** Chips that have a number in them. */
  readonly chips?: string;
}

/** A list without a filter is read to its end. */
const turnsOf = (query: object) => (Object.keys(query).length === 0 ? Number.POSITIVE_INFINITY : 2);

function jobsPage({ query: { status, ...query }, finds, chips }: JobFilter): DeskPage {
  const foundIn = (truth: Truth) => truth.jobs.filter((job) => finds(job, truth.now));
  const listedOf = (found: readonly Job[]) =>
    found.filter((job) => status === undefined || stateOf(job) === status);
  return {
    path: where("/admin/jobs", { ...query, ...(status && { status }) }),
    entries: (truth) => listedOf(foundIn(truth)).length,
    turns: turnsOf({ ...query, ...(status && { status }) }),
    lines: (truth, turn) => {
      const found = foundIn(truth);
      const inAll = listedOf(found);
      return listLines("jobs", truth, {
        ...{ found, turn, row: (job: Job) => jobRow(job, truth.now) },
        ...(status !== undefined && { status }),
        ...(query.tag && { suffix: ` · ${cost(sum(inAll.map(({ total_cost }) => total_cost)))} in all` }),
      });
    },
    // The filters repeat what was asked.
    without: [/class="chips"/],
    ...(chips && { passing: new RegExp(chips) }),
  };
}

const JOBS: readonly JobFilter[] = [
  { query: {}, finds: () => true },
  { query: { agent_name: "orders-export" }, finds: ({ agent_name }) => agent_name === "orders-export" },
  { query: { tag: "customer:c3" }, finds: ({ tags }) => tags.includes("customer:c3") },
  { query: { tag: "region:eu", status: "failed" }, finds: ({ tags }) => tags.includes("region:eu") },
  { query: { started_by: "ben" }, finds: ({ started_by }) => started_by === "ben" },
  { query: { status: "held" }, finds: () => true },
  { query: { status: "sleeping" }, finds: () => true },
  { query: { status: "waiting_for_event" }, finds: () => true },
  { query: { min_cost: "0.012" }, finds: ({ total_cost }) => total_cost >= 0.012 },
  {
    query: { min_duration: "3600" },
    finds: ({ created_at, finished_at }, now) =>
      (finished_at === null ? now : Date.parse(finished_at)) - Date.parse(created_at) >= 3_600_000,
  },
  {
    query: { since: "2030-05-09", until: "2030-05-14" },
    finds: ({ created_at }) => isBetween(created_at, "2030-05-09", "2030-05-14"),
  },
  { query: { ended_since: "2030-05-17" }, finds: ({ finished_at }) => (finished_at ?? "") >= "2030-05-17" },
];

const CASES: readonly { readonly query: Record<string, string>; readonly finds: (item: Case) => boolean }[] =
  [
    { query: {}, finds: () => true },
    { query: { status: "awaiting" }, finds: () => true },
    { query: { status: "failed", search: "HL-2" }, finds: ({ name }) => name.includes("HL-2") },
  ];

function casesPage({ query: { status, ...query }, finds }: (typeof CASES)[number]): DeskPage {
  return {
    path: where("/admin/cases", { ...query, ...(status && { status }) }),
    entries: ({ cases }) =>
      cases.filter((item) => finds(item) && (status === undefined || item.status === status)).length,
    turns: turnsOf({ ...query, ...(status && { status }) }),
    lines: (truth, turn) =>
      listLines("cases", truth, {
        ...{ found: truth.cases.filter(finds), turn, row: (item: Case) => caseRow(item, truth.now) },
        ...(status !== undefined && { status }),
      }),
    without: [/class="chips"/],
  };
}

// Files

const FILES: readonly {
  query: Record<string, string>;
  finds: (file: Truth["files"][number], truth: Truth) => boolean;
}[] = [
  { query: {}, finds: () => true },
  { query: { origin: "artifact" }, finds: ({ artifact }) => artifact !== undefined },
  { query: { origin: "step" }, finds: ({ artifact }) => artifact === undefined },
  {
    query: { kind: "data", search: "order-1" },
    finds: ({ name, title }) => name.includes("order-1") || (title?.includes("order-1") ?? false),
  },
  {
    query: { agent_name: "refund-desk" },
    finds: ({ job_id }, { jobOf }) => jobOf(job_id).agent_name === "refund-desk",
  },
  {
    query: { since: "2030-05-05", until: "2030-05-10" },
    finds: ({ created_at }) => isBetween(created_at, "2030-05-05", "2030-05-10"),
  },
];

function filesPage({ query, finds }: (typeof FILES)[number]): DeskPage {
  return {
    path: where("/admin/files", query),
    entries: (truth) => truth.files.filter((file) => finds(file, truth)).length,
    turns: turnsOf(query),
    lines: (truth, turn) =>
      ofTurn(
        newestFirst(
          truth.files.filter((file) => finds(file, truth)),
          ({ created_at }) => created_at,
        ),
        turn,
      ).map(({ name, title, artifact, size, created_at, job_id }) =>
        [
          "CSV",
          ...(title === undefined ? [name] : [title, name]),
          ...(artifact === undefined ? [] : [artifact]),
          `${formatBytes(size)} · ${created_at} ${truth.jobOf(job_id).name}`,
        ].join(" "),
      ),
  };
}

/** What was deleted alone, with what a reader may do about it. */
function deletedLines(
  truth: Truth,
  turn: number,
  items: readonly {
    id: string;
    name: string;
    status: string;
    owner: string;
    deleted_at: string;
    deleted_by: string;
  }[],
): string[] {
  const listed = ofTurn(
    newestFirst(items, ({ deleted_at }) => deleted_at),
    turn,
  );
  return [
    ...listed.flatMap(({ id, name, status, owner, deleted_at, deleted_by }) => {
      const row = `${name} ${id} | ${labelOf(status)} | ${owner} | ${deleted_at} | ${deleted_by} | No deadline |`;
      if (truth.reader === "owner") return [row, `Restore ${id}`, `Delete permanently ${id} |`];
      return operates(truth) ? [row, `Restore ${id}`] : [`${row} |`];
    }),
    ...pagerLines(items.length, turn),
  ];
}

const DELETED: readonly DeskPage[] = [
  {
    path: "/admin/deleted",
    entries: ({ deleted }) => deleted.length,
    turns: Number.POSITIVE_INFINITY,
    lines: (truth, turn) =>
      deletedLines(
        truth,
        turn,
        truth.deleted.map((job) => ({ ...job, owner: job.agent_name })),
      ),
  },
  {
    path: "/admin/deleted-cases",
    entries: ({ deletedCases }) => deletedCases.length,
    turns: Number.POSITIVE_INFINITY,
    lines: (truth, turn) =>
      deletedLines(
        truth,
        turn,
        truth.deletedCases.map((item) => ({ ...item, owner: item.job_id })),
      ),
  },
];

/** Jobs, cases, files, and what was deleted. */
export const LISTS: readonly DeskPage[] = [
  ...JOBS.map(jobsPage),
  ...CASES.map(casesPage),
  ...FILES.map(filesPage),
  ...DELETED,
];
