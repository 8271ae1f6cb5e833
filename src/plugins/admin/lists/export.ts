import * as v from "valibot";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { seenRoute } from "../admin-route.ts";
import type { AdminParts } from "../parts.ts";
import { DownloadFormatSchema, type DownloadRow, downloadOf } from "./download.ts";
import { readBeside } from "./failed-cases.ts";
import { CasesQuerySchema, JobsQuerySchema, toCasesListQuery, toJobsListQuery } from "./list-query.ts";
import { toCaseRow, toJobRow } from "./rows.ts";

/** Jobs or cases read at a time. */
const CHUNK = 200;

const JOB_COLUMNS = [
  ...(["id", "name", "agent_name", "agent_version", "status", "stop_reason", "error", "failure"] as const),
  ...(["created_at", "updated_at", "finished_at", "run_count", "case_count", "total_cost"] as const),
  ...(["failed_cases", "state", "tags", "started_by", "currency"] as const),
] as const;
const CASE_COLUMNS = [
  ...(["id", "name", "description", "job_id", "status", "error", "created_at", "updated_at"] as const),
  ...(["finished_at", "update_count", "total_cost", "currency"] as const),
] as const;

/** Downloads of exactly what a list shows on all its pages, in its order. */
export function exportRoutes(parts: AdminParts): RouteDefinition[] {
  const { currency } = parts.options;
  const jobs = filtersOf(JobsQuerySchema.entries);
  const cases = filtersOf(CasesQuerySchema.entries);
  const describe = (what: string) =>
    `All ${what} that match, in the order of \`sort\`, as CSV (RFC 4180, UTF-8 with a byte order mark) or as a JSON array.`;
  return [
    seenRoute(parts, {
      method: "GET",
      path: "/admin/api/jobs/export",
      needs: "view",
      summary: "Download jobs",
      description: describe("jobs"),
      query: v.object({ ...jobs, format: DownloadFormatSchema }),
      responses: { 200: { description: "The jobs", contentType: "text/csv" } },
      handler: async ({ query: { format, ...given } }, seen) => {
        const { where, search, sort } = await toJobsListQuery(parts, given);
        // What matches now: what changes meanwhile is neither missing nor doubled.
        const ids = await seen.jobs.ids({ where, search, sort, limit: Number.POSITIVE_INFINITY });
        const rows = inChunks(ids, async (chunk) => {
          const { items } = await seen.jobs.list({ where: { id: chunk }, limit: CHUNK });
          const beside = await readBeside(seen, chunk);
          return items.map((job) => ({ ...toJobRow(job, beside), currency }));
        });
        return downloadOf("jobs", format, { columns: JOB_COLUMNS, rows });
      },
    }),
    seenRoute(parts, {
      method: "GET",
      path: "/admin/api/cases/export",
      needs: "view",
      summary: "Download cases",
      description: describe("cases"),
      query: v.object({ ...cases, format: DownloadFormatSchema }),
      responses: { 200: { description: "The cases", contentType: "text/csv" } },
      handler: async ({ query: { format, ...given } }, seen) => {
        const { where, search, sort } = toCasesListQuery(given);
        const ids = await seen.cases.ids({ where, search, sort, limit: Number.POSITIVE_INFINITY });
        const rows = inChunks(ids, async (chunk) => {
          const { items } = await seen.cases.list({ where: { id: chunk }, limit: CHUNK });
          return items.map((item) => ({ ...toCaseRow(item), currency }));
        });
        return downloadOf("cases", format, { columns: CASE_COLUMNS, rows });
      },
    }),
  ];
}

function filtersOf<E extends v.ObjectEntries & { limit: unknown; skip: unknown; refresh: unknown }>({
  limit: _limit,
  skip: _skip,
  refresh: _refresh,
  ...filters
}: E) {
  return filters;
}

/** Reads what has these ids, in their order; what is gone by then is skipped. */
async function* inChunks<Row extends DownloadRow & { readonly id: string }>(
  ids: readonly string[],
  read: (chunk: readonly string[]) => Promise<readonly Row[]>,
): AsyncGenerator<Row> {
  for (let at = 0; at < ids.length; at += CHUNK) {
    const chunk = ids.slice(at, at + CHUNK);
    const found = new Map((await read(chunk)).map((row) => [row.id, row]));
    for (const id of chunk) {
      const row = found.get(id);
      if (row) yield row;
    }
  }
}
