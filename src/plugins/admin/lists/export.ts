import * as v from "valibot";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { adminRoute } from "../admin-route.ts";
import type { AdminParts } from "../parts.ts";
import { readBeside } from "./failed-cases.ts";
import { JobsQuerySchema, toJobsListQuery } from "./list-query.ts";
import { toJobRow } from "./rows.ts";

/** Jobs read at a time. */
const CHUNK = 200;

const COLUMNS = [
  ...(["id", "name", "agent_name", "agent_version", "status", "stop_reason", "error", "failure"] as const),
  ...(["created_at", "updated_at", "finished_at", "run_count", "case_count", "total_cost"] as const),
  ...(["failed_cases", "state", "tags", "started_by"] as const),
] as const;

/** Downloads exactly the jobs that a list shows on all its pages, in its order. */
export function exportRoute(parts: AdminParts): RouteDefinition {
  const { limit: _limit, skip: _skip, refresh: _refresh, ...filters } = JobsQuerySchema.entries;
  return adminRoute({
    method: "GET",
    path: "/admin/api/jobs/export",
    needs: "view",
    summary: "Download jobs",
    description: "All jobs that match, in the order of `sort`, as CSV (RFC 4180, UTF-8) or as a JSON array.",
    query: v.object({ ...filters, format: v.optional(v.picklist(["csv", "json"]), "csv") }),
    responses: { 200: { description: "The jobs", contentType: "text/csv" } },
    handler: async ({ query }) => {
      const { format, ...given } = query;
      const { where, search, sort } = await toJobsListQuery(parts, given);
      // What matches now: jobs that change meanwhile are neither missing nor doubled.
      const ids = await parts.jobs.ids({ where, search, sort, limit: Number.POSITIVE_INFINITY });
      const isCsv = format === "csv";
      return new Response(toStream(isCsv ? csv(parts, ids) : json(parts, ids)), {
        headers: {
          "content-type": isCsv ? "text/csv; charset=utf-8" : "application/json; charset=utf-8",
          "content-disposition": `attachment; filename="jobs.${format}"`,
          "cache-control": "no-store",
        },
      });
    },
  });
}

async function* rowsOf(parts: AdminParts, ids: readonly string[]) {
  for (let at = 0; at < ids.length; at += CHUNK) {
    const chunk = ids.slice(at, at + CHUNK);
    const { items } = await parts.jobs.list({ where: { id: chunk }, limit: CHUNK });
    const beside = await readBeside(parts, chunk);
    const found = new Map(items.map((job) => [job.id, job]));
    for (const id of chunk) {
      const job = found.get(id);
      if (job) yield toJobRow(job, beside);
    }
  }
}

async function* csv(parts: AdminParts, ids: readonly string[]): AsyncGenerator<string> {
  yield `${COLUMNS.join(",")}\r\n`;
  for await (const row of rowsOf(parts, ids)) yield `${COLUMNS.map((name) => cell(row[name])).join(",")}\r\n`;
}

async function* json(parts: AdminParts, ids: readonly string[]): AsyncGenerator<string> {
  let before = "[";
  for await (const row of rowsOf(parts, ids)) {
    yield `${before}${JSON.stringify(row)}`;
    before = ",\n";
  }
  yield before === "[" ? "[]" : "]";
}

/** A spreadsheet would run a text that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

function cell(given: string | number | null | readonly string[]): string {
  const value = given !== null && typeof given === "object" ? given.join(", ") : given;
  if (value === null || typeof value === "number") return String(value ?? "");
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function toStream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await texts.return(undefined);
    },
  });
}
