import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { seesAgent } from "../../../core/entities/in-sight.ts";
import { addUp, readModelUses } from "../../../core/entities/model-uses.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { ModelUse } from "../../../core/models/model-use.ts";
import { adminRoute } from "../admin-route.ts";
import { DownloadFormatSchema, downloadOf, downloadsOf } from "../lists/download.ts";
import type { AdminParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { renderChart, roundUp } from "../views/chart.ts";
import { formatCost, formatCount } from "../views/format.ts";

const DAYS = 30;

const count = v.number();
/** What models were used for: one entry for each day, agent and model, the newest day first. */
const ModelUsesSchema = v.object({
  /** The first day, `YYYY-MM-DD`, UTC. */
  since: v.string(),
  items: v.array(
    v.object({
      ...{ day: v.string(), agent: v.string(), model: v.string() },
      ...{ calls: count, failed: count },
      ...{ input_tokens: count, output_tokens: count, cached_tokens: count, reasoning_tokens: count },
      cost: count,
    }),
  ),
});

const QuerySchema = v.object({
  days: v.optional(v.pipe(v.string(), v.transform(Number), v.integer(), v.minValue(1), v.maxValue(366))),
});

/** Tokens and cost by model, agent and day. */
export function modelRoutes(parts: AdminParts): RouteDefinition[] {
  return [...pageRoutes(parts), exportRoute(parts)];
}

const COLUMNS = [
  ...(["day", "agent", "model", "calls", "failed", "input_tokens", "output_tokens"] as const),
  ...(["cached_tokens", "reasoning_tokens", "cost", "currency"] as const),
] as const;

/** Downloads the sums: a bill by day, agent and model. */
function exportRoute(parts: AdminParts): RouteDefinition {
  return adminRoute({
    method: "GET",
    path: "/admin/api/models/export",
    needs: "view",
    summary: "Download tokens and cost",
    description: "A line for each day, agent and model, as CSV or as a JSON array.",
    query: v.object({ ...QuerySchema.entries, format: DownloadFormatSchema }),
    responses: { 200: { description: "The sums", contentType: "text/csv" } },
    narrows: "agents",
    handler: async ({ query: { days = DAYS, format }, caller }) => {
      const uses = await usesFor(parts, caller, firstDay(parts, days));
      const { currency } = parts.options;
      async function* rows() {
        for (const use of uses) yield { ...use, currency };
      }
      return downloadOf("models", format, { columns: COLUMNS, rows: rows() });
    },
  });
}

function firstDay({ clock }: AdminParts, days: number): string {
  return new Date(clock().getTime() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
}

function pageRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    narrows: "agents",
    page: ["/admin/models", "Models page"],
    api: [
      "/admin/api/models",
      "Tokens and cost by model, agent and day",
      "What calls of models have used and cost, as steps have reported it.",
    ],
    query: QuerySchema,
    answer: "What models were used for",
    schema: ModelUsesSchema,
    resource: ({ query, caller }) => modelsResource(parts, caller, query.days ?? DAYS),
  });
}

type Use = Omit<ModelUse, "id">;

/** The sums of the agents all of whose jobs a caller sees. */
async function usesFor({ store }: AdminParts, { sight }: Caller, since: string): Promise<Use[]> {
  const uses = await readModelUses(store, since);
  return sight === undefined ? uses : uses.filter(({ agent }) => seesAgent(sight, agent));
}

function modelsResource(parts: AdminParts, caller: Caller, days: number): Resource {
  const since = firstDay(parts, days);
  const period = days === 1 ? "of today, UTC" : `in the last ${formatCount(days)} days`;
  const read = () => usesFor(parts, caller, since);
  return {
    page: "models",
    fragment: "models",
    json: async () => ({ since, items: await read() }),
    state: async () => {
      const uses = await read();
      const { currency } = parts.options;
      const tables = (
        [
          ["Model", "model"],
          ["Agent", "agent"],
          ["Day", "day"],
        ] as const
      ).map(([title, field]) => ({
        title,
        rows: sumsBy(uses, field).map(([name, sum]) => toRow(name, sum, currency)),
      }));
      const plot = toPlot(uses, { since, days, period, currency });
      const total = uses.length > 0 ? toRow("All", uses.reduce(addUp), currency) : undefined;
      const exports = downloadsOf("/admin/api/models/export", { days });
      return { tables, plot, total, since, exports, period };
    },
  };
}

/** What each day has cost. */
function toPlot(
  uses: readonly Use[],
  {
    since,
    days,
    period,
    currency,
  }: { readonly since: string; readonly days: number; readonly period: string; readonly currency: string },
) {
  const sums = new Map(sumsBy(uses, "day"));
  const dayAt = (n: number) => new Date(Date.parse(since) + n * 86_400_000).toISOString().slice(0, 10);
  const columns = Array.from({ length: days }, (_, n) => {
    const label = dayAt(n);
    return { label, parts: [{ name: "spent", count: sums.get(label)?.cost ?? 0 }] };
  });
  const most = Math.max(...columns.map(({ parts: [part] }) => part!.count));
  if (most === 0) return undefined;
  const unit = {
    top: roundUp,
    say: ({ count }: { readonly count: number }) => formatCost(count, currency),
    whole: (total: number) => formatCost(total, currency),
  };
  return {
    chart: renderChart(columns, `Cost of calls ${period}`, undefined, unit),
    top: formatCost(roundUp(most), currency),
    days: [...new Set([0, Math.floor(days / 2), days - 1])].map(dayAt),
  };
}

/** The dearest first; days with the newest first. */
function sumsBy(uses: readonly Use[], field: "model" | "agent" | "day"): [string, Use][] {
  const sums = new Map<string, Use>();
  for (const use of uses) {
    const sum = sums.get(use[field]);
    sums.set(use[field], sum ? addUp(sum, use) : use);
  }
  const list = [...sums];
  if (field === "day") return list.sort(([a], [b]) => (a < b ? 1 : -1));
  return list.sort(([, a], [, b]) => b.cost - a.cost || b.input_tokens - a.input_tokens);
}

function toRow(name: string, sum: Use, currency: string) {
  return {
    name,
    calls: formatCount(sum.calls),
    failed: sum.failed > 0 ? formatCount(sum.failed) : "",
    input: formatCount(sum.input_tokens),
    output: formatCount(sum.output_tokens),
    cached: formatCount(sum.cached_tokens),
    cost: formatCost(sum.cost, currency),
  };
}
