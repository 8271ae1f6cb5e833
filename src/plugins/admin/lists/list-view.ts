import { countOf } from "../../../core/base/count-of.ts";
import { withQuery } from "../query.ts";
import { formatCount } from "../views/format.ts";
import { html } from "../views/html.ts";
import { labelOf } from "../views/pieces.ts";
import { downloadsOf } from "./download.ts";
import { DEFAULT_LIMIT, DEFAULT_SORT, type ListedState } from "./list-query.ts";
import type { EntityLine } from "./rows.ts";

type Filters = Readonly<Record<string, string | undefined>>;

/** A list of entities, ready for the template. */
export interface ListSource {
  readonly kind: "jobs" | "cases";
  /** Filters besides the status, by query parameter. */
  readonly filters: Filters;
  readonly filterLabels: Readonly<Record<string, string>>;
  readonly status: ListedState | undefined;
  readonly sort: string | undefined;
  readonly limit: number;
  /** How many entities are on the pages before. */
  readonly skip: number;
  /** Where the page before ended. */
  readonly after: string | undefined;
  /** Entities by status that match the other filters. */
  readonly counts: Readonly<Record<string, number>>;
  readonly columns: readonly Column[];
  readonly selects: readonly Select[];
  readonly inputs: readonly Input[];
}

/** A list with the entities of one page. */
export interface PageSource extends ListSource {
  readonly total: number;
  /** Where this page ends; absent on the last one. */
  readonly next: string | undefined;
  readonly rows: readonly EntityLine[];
  readonly icons: string;
  /** Whether a search finds ids and names only. */
  readonly isEncrypted: boolean;
  /** Whether the viewer may start a job. */
  readonly mayStart: boolean;
  /** Milliseconds since the epoch: entities created later are new to the viewer of the page. */
  readonly renderedAt: number;
}

export interface Column {
  readonly label: string;
  readonly key?: string;
  readonly style?: string;
  /** What the same column shows where the list is sorted by it. */
  readonly or?: { readonly label: string; readonly key: string };
}

/** A filter that a person types. */
export interface Input {
  readonly name: string;
  readonly label: string;
  readonly type: "date" | "number" | "text";
}

export interface Select {
  readonly name: string;
  readonly label: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
}

/** The tabs of each list, in their order: what an entity is in is in one of them. */
const TABS: Readonly<Record<ListSource["kind"], readonly ListedState[]>> = {
  jobs: [
    ...([
      "running",
      "stuck",
      "sleeping",
      "waiting_for_event",
      "waiting_for_child",
      "chat",
      "awaiting",
    ] as const),
    ...(["held", "pulled", "queued", "parked", "completed", "failed", "cancelled", "cancelling"] as const),
  ],
  cases: ["in_progress", "awaiting", "stopped", "completed", "failed", "cancelled", "cancelling"],
};
/** Tabs that are shown even if empty. */
const STEADY: readonly ListedState[] = ["running", "in_progress", "awaiting", "completed", "failed"];
const SIZES = [25, 50, 100] as const;

/** The part of a list that is updated while it is open: counts by status, and how many entities are new. */
export function toTabsView(source: ListSource, { after, added }: { after: number; added: number }) {
  const { kind, status, counts } = source;
  const { to, state } = addressesOf(source);
  const noun = nounOf(kind);
  const total = status === undefined ? totalOf(source) : (counts[status] ?? 0);
  return {
    kind,
    here: to({ after: source.after, skip: source.skip || undefined }),
    tabsUrl: withQuery(`/admin/api/${kind}/tabs`, state, { seen_at: after }),
    tabs: toTabs(source, to),
    matching: formatCount(total),
    news: added === 0 ? "" : `Show ${countOf(added, `new ${noun}`)}`,
  };
}

/** The layout of a list: tabs, filters, columns, pages; every link contains the complete state. */
export function toListView(source: PageSource) {
  const { kind, filters, status, limit, skip, total } = source;
  const { path, sort, size, state, to } = addressesOf(source);
  const noun = nounOf(kind);
  const from = total === 0 ? 0 : Math.min(skip + 1, total);
  const until = Math.min(skip + limit, total);
  return {
    ...toTabsView(source, { after: source.renderedAt, added: 0 }),
    path,
    query: new URLSearchParams(withQuery("", state).slice(1)).toString(),
    caption: kind === "jobs" ? "Jobs" : "Cases",
    rowsUrl: `/admin/api/${kind}/rows?ids=`,
    kept: Object.entries({ ...filters, status, sort, limit: size })
      .filter(([name, value]) => value !== undefined && name !== "search" && !isSelected(name, source))
      .map(([name, value]) => ({ name, value })),
    search: filters.search ?? "",
    searchLabel: source.isEncrypted
      ? "Search id or name"
      : kind === "jobs"
        ? "Id, name, input or error"
        : "Id, name or description",
    selects: source.selects.map((select) => ({
      ...select,
      options: select.options.map((option) => ({
        ...option,
        selected: option.value === (filters[select.name] ?? ""),
      })),
    })),
    inputs: source.inputs.map((input) => {
      const value = filters[input.name] ?? "";
      return { ...input, value: input.type === "date" ? value.slice(0, 10) : value };
    }),
    needsZone: source.inputs.length > 0 && filters.zone === undefined,
    // Who chose an agent narrows further.
    narrowed:
      source.inputs.some(({ name }) => filters[name] !== undefined) ||
      (source.inputs.length > 0 && filters.agent_name !== undefined),
    showsChanged: (sort ?? DEFAULT_SORT).endsWith("updated_at"),
    exports: downloadsOf(`/admin/api/${kind}/export`, { ...filters, status, sort }),
    // The status is a tab.
    chips: Object.entries(filters)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => ({
        label: source.filterLabels[name] ?? name,
        value,
        href: to({ [name]: undefined }),
      })),
    clearHref: withQuery(path, { sort, limit: size }),
    columns: source.columns.map(({ or, ...column }) => ({
      ...toColumn(column, source, to),
      or: or ? [toColumn(or, source, to)] : [],
    })),
    rows: source.rows,
    range: total === 0 ? "" : `${formatCount(from)}–${formatCount(until)}`,
    noun: total === 1 ? noun : `${noun}s`,
    sizes: SIZES.map((one) => ({
      label: String(one),
      current: one === limit,
      href: to({ limit: one === DEFAULT_LIMIT ? undefined : one }),
    })),
    previous: skip > 0 ? to({ skip: Math.max(0, skip - limit) || undefined }) : "",
    next: source.next === undefined ? "" : to({ after: source.next, skip: skip + limit }),
    actions: [
      { name: "stop", label: "Stop", icon: "stop", style: "" },
      { name: "retry", label: "Retry", icon: "retry", style: "" },
      { name: "continue", label: "Continue held", icon: "play", style: "" },
      { name: "restart", label: "Restart", icon: "retry", style: "" },
      { name: "delete", label: "Delete", icon: "trash", style: "danger" },
    ].filter(({ name }) => kind === "jobs" || name === "delete"),
    ...emptyOf(source),
  };
}

/** What a list says that has no rows. */
function emptyOf({ kind, filters, status, isEncrypted, mayStart }: PageSource) {
  const noun = nounOf(kind);
  if (Object.values(filters).some((value) => value !== undefined)) {
    const isBlind = isEncrypted && filters.search !== undefined;
    const note = isBlind ? "A search finds ids and names only, as the store is encrypted. " : "";
    return {
      emptyTitle: `No ${noun}s match.`,
      emptyText: `${note}Clear a filter, or search for something else.`,
    };
  }
  if (status !== undefined)
    return { emptyTitle: `No ${noun} is in this state.`, emptyText: "Choose another one above." };
  return {
    emptyTitle: `No ${noun}s yet.`,
    emptyText:
      kind === "cases"
        ? "Cases appear when a job opens them."
        : mayStart
          ? "Start one from an agent's page, or over the API."
          : "Jobs appear when somebody starts them.",
  };
}

function addressesOf({ kind, filters, status, sort: given, limit }: ListSource) {
  const path = `/admin/${kind}`;
  const sort = given === DEFAULT_SORT ? undefined : given;
  const size = limit === DEFAULT_LIMIT ? undefined : limit;
  const state = { ...filters, status, sort, limit: size };
  const to: To = (changes) => withQuery(path, state, changes);
  return { path, sort, size, state, to };
}

function nounOf(kind: ListSource["kind"]): string {
  return kind === "jobs" ? "job" : "case";
}

/** All entities of a list: each is in one of the tabs, and a job that is stuck in that of those that run, too. */
function totalOf({ kind, counts }: ListSource): number {
  return TABS[kind].reduce((sum, status) => sum + (status === "stuck" ? 0 : (counts[status] ?? 0)), 0);
}

function isSelected(name: string, source: ListSource): boolean {
  return [...source.selects, ...source.inputs].some((field) => field.name === name);
}

type To = (changes: Readonly<Record<string, string | number | undefined>>) => string;

function toTabs(source: ListSource, to: To) {
  const { kind, status: current } = source;
  // The address may have another name of a tab: a job that is `stopping` has the status `cancelling`.
  const own = TABS[kind].map((status) =>
    current !== undefined && labelOf(status) === labelOf(current) ? current : status,
  );
  // A saved address may name a status that has no tab.
  const all = current === undefined || own.includes(current) ? own : [...own, current];
  const shown = all.filter(
    (status) => STEADY.includes(status) || source.counts[status] || current === status,
  );
  return [
    {
      label: "All",
      count: formatCount(totalOf(source)),
      current: source.status === undefined,
      href: to({ status: undefined }),
    },
    ...shown.map((status) => ({
      label: labelOf(status),
      count: formatCount(source.counts[status] ?? 0),
      current: source.status === status,
      href: to({ status }),
    })),
  ];
}

/** A click sorts, a second one reverses the order. Numbers and times start with the largest. */
function toColumn(column: Column, source: PageSource, to: To) {
  const { key } = column;
  if (key === undefined) return { ...column, style: column.style ?? "", sort: "", href: "", arrow: "" };
  const sort = source.sort ?? DEFAULT_SORT;
  const state = sort === key ? "ascending" : sort === `-${key}` ? "descending" : undefined;
  const largestFirst =
    key.endsWith("_at") || key.endsWith("_cost") || key.endsWith("_count") || key === "duration";
  const next =
    state === undefined ? (largestFirst ? `-${key}` : key) : state === "ascending" ? `-${key}` : key;
  const arrow = state === undefined ? "" : arrowOf(state, source.icons);
  return {
    label: column.label,
    style: column.style ?? "",
    sort: state === undefined ? "" : `aria-sort="${state}"`,
    href: to({ sort: next === DEFAULT_SORT ? undefined : next }),
    arrow,
  };
}

function arrowOf(state: "ascending" | "descending", icons: string): string {
  const icon = state === "ascending" ? "up" : "down";
  return html`<svg class="i" aria-hidden="true"><use href="${icons}#${icon}"/></svg>`.toString();
}
