import * as v from "valibot";
import type { MaybePromise } from "../../../core/base/maybe-promise.ts";
import { behindCursor, toCursor } from "../../../core/http/cursor.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { ListQuery, Page } from "../../../core/store/store.ts";
import { seenRoute } from "../admin-route.ts";
import { pageOf } from "../answers/entities.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { withoutEmpty } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { type Resource, renderFragment } from "../respond.ts";
import { offeredTo } from "../viewer.ts";
import { formatCost } from "../views/format.ts";
import type { Beside } from "./failed-cases.ts";
import { IdsQuerySchema, readIds } from "./ids-query.ts";
import type { CasesQuery, JobsQuery } from "./list-query.ts";
import { type ListSource, toListView, toTabsView } from "./list-view.ts";
import { toPageOf } from "./page-of.ts";
import type { EntityLine, RowContext } from "./rows.ts";

type Query = JobsQuery | CasesQuery;

/** Where the list of jobs and the list of cases differ. */
export interface ListOf<E, Q extends Query> extends Pick<ListSource, "kind" | "filterLabels" | "columns"> {
  readonly title: string;
  readonly table: {
    list(query: ListQuery): Promise<Page<E>>;
    countBy(field: string, query: Pick<ListQuery, "where" | "search">): Promise<Record<string, number>>;
  };
  /** Entities by the status that the list shows, where that is not the stored one alone. */
  count?(query: Pick<ListQuery, "where" | "search">): Promise<Record<string, number>>;
  /** Filters besides the status, by query parameter. */
  readonly filters: readonly (keyof Q & string)[];
  toListQuery(query: Q): MaybePromise<ListQuery & { readonly sort: string }>;
  /** Reads what the rows show besides the entities. */
  readBeside(entities: readonly E[]): Promise<Beside>;
  toRow(entity: E, beside: Beside): unknown;
  toLine(entity: E, context: RowContext): EntityLine;
  selects?(query: Q): ListSource["selects"];
  readonly inputs?: ListSource["inputs"];
  /** What all that match have cost, where the list tells it. */
  cost?(query: Q): Promise<number | undefined>;
  /** Saved views, where the list has them. */
  views?(query: Q): Promise<readonly unknown[]>;
  readonly startable?: readonly unknown[];
}

/** A list, and what it is made of for each caller. */
export interface SeenList<E, Q extends Query> {
  readonly kind: ListSource["kind"];
  readonly title: string;
  readonly description: string;
  readonly schema: v.ObjectSchema<v.ObjectEntries, undefined> & v.GenericSchema<unknown, Q>;
  readonly rowSchema: v.GenericSchema;
  seen(parts: SeenParts): ListOf<E, Q>;
}

/** A list of entities: page, API, and the parts of an open page that are updated live. */
export function listRoutes<E, Q extends Query>(
  parts: AdminParts,
  { kind, title, schema, description, rowSchema, seen: listOf }: SeenList<E, Q>,
): RouteDefinition[] {
  const context = () => ({ now: parts.clock(), currency: parts.options.currency });
  const live = { method: "GET", hidden: true } as const;
  const fragment = (description: string) => ({ 200: { description, contentType: "text/html" } });
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: [`/admin/${kind}`, `${title} page`],
      api: [`/admin/api/${kind}`, `List ${kind}`, description],
      query: schema,
      answer: `A page of ${kind}`,
      schema: v.object({
        ...pageOf(rowSchema).entries,
        /** Of jobs with a tag: what all that match have cost, where that can be added up. */
        cost: v.optional(v.number()),
        /** With `search`, in an encrypted store: what it was compared with. */
        searched: v.optional(v.array(v.string())),
      }),
      seen: ({ query }, seen) => listResource(seen, listOf(seen), query as Q),
    }),
    seenRoute(parts, {
      ...live,
      path: `/admin/api/${kind}/rows`,
      needs: "view",
      summary: `Rows of the ${kind} table`,
      query: IdsQuerySchema,
      responses: fragment("Table rows"),
      handler: async ({ query, event }, seen) => {
        const list = listOf(seen);
        const { items } = await list.table.list({ where: { id: readIds(query) }, limit: 100 });
        const beside = await list.readBeside(items);
        const rows = items.map((item) => list.toLine(item, { ...context(), ...beside }));
        return renderFragment(parts, event, { template: "entity-rows", state: { list: { rows } } });
      },
    }),
    seenRoute(parts, {
      ...live,
      path: `/admin/api/${kind}/tabs`,
      needs: "view",
      summary: `Counts of the ${kind} list, and how many are new since it was rendered`,
      query: v.object({
        ...schema.entries,
        /** Milliseconds since 1970: how many entities are newer is counted. */
        seen_at: v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/))),
      }),
      responses: fragment("Tabs"),
      handler: async ({ query, event }, seen) => {
        const list = listOf(seen);
        const { seen_at: after = parts.clock().getTime(), ...given } = query as Q & { seen_at?: string };
        const { where, search } = await list.toListQuery(given as unknown as Q);
        const { gte = 0, ...until } = (where?.created_at ?? {}) as { gte?: number };
        const newer = { ...where, created_at: { ...until, gte: Math.max(gte, Number(after)) } };
        const [source, added] = await Promise.all([
          readSource(list, given as unknown as Q),
          list.table.list({ where: newer, search, limit: 0 }),
        ]);
        const state = { list: toTabsView(source, { after: Number(after), added: added.total }) };
        return renderFragment(parts, event, { template: "entity-tabs", state });
      },
    }),
  ];
}

function costText(cost: number | undefined, currency: string): string {
  return cost === undefined ? "" : ` · ${formatCost(cost, currency)} in all`;
}

function listResource<E, Q extends Query>(parts: SeenParts, list: ListOf<E, Q>, given: Q): Resource {
  const { limit, skip, after } = withoutEmpty(given) as Q;
  const isEncrypted = parts.service.encryption?.sealsWith !== undefined;
  const read = async () => {
    const query = await list.toListQuery(given);
    const { next, ...page } = await list.table.list(behindCursor(query, after || undefined));
    return { ...page, next: next && toCursor(query.sort, next) };
  };
  return {
    page: "entities",
    fragment: "entities",
    json: async () => {
      const { items, total, next } = await read();
      const cursors = { after: after || undefined, next };
      const beside = await list.readBeside(items);
      const rows = items.map((item) => list.toRow(item, beside));
      const cost = await list.cost?.(given);
      return {
        ...toPageOf(rows, { total, limit, skip, cursors }),
        ...(cost !== undefined && { cost }),
        ...(given.search && isEncrypted && { searched: ["id", "name"] }),
      };
    },
    state: async () => {
      const now = parts.clock();
      const [{ items, total, next }, source] = await Promise.all([read(), readSource(list, given)]);
      const beside = await list.readBeside(items);
      const rows = items.map((item) =>
        list.toLine(item, { now, currency: parts.options.currency, ...beside }),
      );
      const icons = parts.assets.urls.icons;
      return {
        title: list.title,
        startable: list.startable ?? [],
        views: (await list.views?.(given)) ?? [],
        savesViews: list.views !== undefined,
        cost: costText(await list.cost?.(given), parts.options.currency),
        list: toListView({
          ...{ ...source, isEncrypted, total, next, rows, icons, renderedAt: now.getTime() },
          mayStart: offeredTo(parts.caller).start,
        }),
      };
    },
  };
}

function textOf(value: unknown): string | undefined {
  return value === undefined ? undefined : String(value);
}

/** What the list shows around its rows. */
async function readSource<E, Q extends Query>(list: ListOf<E, Q>, given: Q) {
  // A tab shows the count that a click on it would list: the other filters apply, the status does not.
  const { where, search } = await list.toListQuery({ ...given, status: undefined });
  const counts = await (list.count?.({ where, search }) ?? list.table.countBy("status", { where, search }));
  const query = withoutEmpty(given) as Record<string, unknown> &
    Pick<ListSource, "status" | "sort" | "after">;
  // A form sends the reader's zone with everything.
  if (query.since === undefined && query.until === undefined) delete query.zone;
  return {
    kind: list.kind,
    filters: Object.fromEntries(list.filters.map((name) => [name, textOf(query[name])])),
    filterLabels: list.filterLabels,
    status: query.status,
    sort: query.sort,
    limit: given.limit,
    skip: given.skip,
    after: query.after || undefined,
    counts,
    columns: list.columns,
    selects: list.selects?.(given) ?? [],
    inputs: list.inputs ?? [],
  };
}
