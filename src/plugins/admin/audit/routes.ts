import * as v from "valibot";
import { CheckpointSchema, makeCheckpoint } from "../../../core/access/checkpoint.ts";
import { nameOf } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { wholeNumber } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import {
  AUDIT_ACTIONS,
  type AuditEntry,
  AuditEntrySchema,
  describeValue,
  placeOf,
} from "../../../core/models/audit-entry.ts";
import { adminRoute } from "../admin-route.ts";
import { DownloadFormatSchema, downloadOf, downloadsOf } from "../lists/download.ts";
import { moment } from "../lists/list-query.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatCount } from "../views/format.ts";
import { pathTo, timePiece } from "../views/pieces.ts";
import { changeOf } from "./change.ts";

const MOST = 1_000_000_000_000;
const text = v.pipe(v.string(), v.maxLength(200));

const FILTERS = {
  action: optionalText(v.picklist(AUDIT_ACTIONS)),
  who: optionalText(text),
  target: optionalText(text),
  since: optionalText(moment),
  until: optionalText(moment),
};
const QuerySchema = filterQuery({
  limit: wholeNumber({ min: 1, max: 200, default: 50 }),
  before: wholeNumber({ min: 1, max: MOST, default: MOST }),
  ...FILTERS,
});
type Query = v.InferOutput<typeof QuerySchema>;

const PageSchema = v.object({
  items: v.array(AuditEntrySchema),
  /** Send it as `before` for older lines; `null` if there are none. */
  next: v.nullable(v.number()),
  /** Number of lines in the log, regardless of the query. */
  total: v.number(),
});

/** The audit log of security-relevant actions. */
export function auditRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "manage",
      page: ["/admin/audit", "Audit log"],
      api: [
        "/admin/api/audit",
        "List the audit log, newest first",
        "Filters combine. `who` searches names and addresses, `target` what was changed. To continue, send `next` as `before`.",
      ],
      query: QuerySchema,
      answer: "A page of lines",
      schema: PageSchema,
      resource: ({ query }) => auditResource(parts, query),
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/audit/lines",
      needs: "manage",
      summary: "Read the audit log, oldest first",
      description: "Lines after a number, oldest first: for exports, and to verify the hash chain.",
      query: filterQuery({
        after: wholeNumber({ min: 0, max: MOST, default: 0 }),
        limit: wholeNumber({ min: 1, max: 1000, default: 1000 }),
      }),
      responses: {
        200: { description: "The lines", schema: v.object({ items: v.array(AuditEntrySchema) }) },
      },
      handler: async ({ query }) => ({ items: await parts.audit.after(query.after, query.limit) }),
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/audit/checkpoint",
      needs: "manage",
      summary: "The end of the audit log, signed",
      description:
        "The newest line, with a signature by the key of the service that `key` names. Keep it somewhere else: `svc audit verify --checkpoint` shows whether lines up to it are missing.",
      responses: { 200: { description: "The checkpoint", schema: CheckpointSchema } },
      handler: async () => {
        const pair = await parts.signing.present();
        const end = await parts.audit.end();
        if (!end) throw new ServiceError("not_found", "The audit log has no lines");
        return makeCheckpoint(pair, { line: placeOf(end), at: parts.clock().toISOString() });
      },
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/audit/verify",
      needs: "manage",
      summary: "Follow the hash chain of the audit log",
      description:
        "From the first line that is kept to the last one that was written. Somebody who can write to the store could have changed both: compare with a line that was kept somewhere else.",
      responses: {
        200: {
          description: "What was found",
          schema: v.object({
            lines: v.number(),
            /** `LINE:HASH` of the last line; `null` where there is none. */
            newest: v.nullable(v.string()),
            /** The first line that does not fit, or is missing. */
            problem: v.nullable(v.string()),
          }),
        },
      },
      handler: async () => {
        const { lines, problem } = await parts.audit.verify();
        const end = lines === 0 ? undefined : await parts.audit.end();
        return { lines, newest: end ? placeOf(end) : null, problem: problem ?? null };
      },
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/audit/export",
      needs: "manage",
      summary: "Download the audit log",
      description: "All lines that match, newest first, as CSV or as a JSON array.",
      query: v.object({ ...FILTERS, format: DownloadFormatSchema }),
      responses: { 200: { description: "The lines", contentType: "text/csv" } },
      handler: ({ query: { format, ...filters } }) =>
        downloadOf("audit", format, { columns: COLUMNS, rows: linesOf(parts, withoutEmpty(filters)) }),
    }),
  ];
}

const COLUMNS = [
  ...(["n", "at", "who", "address", "action", "target", "outcome", "before", "after", "hash"] as const),
] as const;

async function* linesOf(parts: AdminParts, filters: Omit<Query, "limit" | "before" | "refresh">) {
  for (let before: number | null = MOST; before !== null; ) {
    const page: { items: readonly AuditEntry[]; next: number | null } = await parts.audit.list({
      ...filters,
      before,
      limit: 200,
    });
    for (const entry of page.items) {
      const { n, at, who, address, action, target, outcome, hash } = entry;
      yield {
        ...{ n, at, action, hash, who: nameOf(who), address: address ?? null },
        ...{ outcome: outcome ?? "done", target: target ? `${target.kind} ${target.id}` : null },
        ...{ before: describeValue(entry.before), after: describeValue(entry.after) },
      };
    }
    before = page.next;
  }
}

function auditResource(parts: AdminParts, given: Query): Resource {
  const { refresh: _, ...query } = withoutEmpty(given);
  const read = () => parts.audit.list(query);
  return {
    page: "audit",
    fragment: "audit",
    json: read,
    state: async () => {
      const { items, next, total } = await read();
      const now = parts.clock();
      const { before, limit: _limit, ...filters } = query;
      return {
        rows: items.map((entry) => toRow(entry, now)),
        total: countOf(total, "line"),
        filters: {
          who: filters.who ?? "",
          target: filters.target ?? "",
          since: filters.since?.slice(0, 10) ?? "",
          until: filters.until?.slice(0, 10) ?? "",
        },
        actions: ["", ...AUDIT_ACTIONS].map((value) => ({
          value,
          label: value === "" ? "Any action" : value,
          selected: value === (filters.action ?? ""),
        })),
        exports: [
          ...downloadsOf("/admin/api/audit/export", filters),
          { label: "Signed checkpoint", href: "/admin/api/audit/checkpoint" },
        ],
        isFiltered: Object.values(filters).some((value) => value !== undefined),
        newest: before < MOST ? withQuery("/admin/audit", filters) : "",
        older: next === null ? "" : withQuery("/admin/audit", filters, { before: next }),
      };
    },
  };
}

function toRow(entry: AuditEntry, now: Date) {
  const { n, at, who, address, action, target, outcome } = entry;
  return {
    n: formatCount(n),
    time: timePiece(at, now).toString(),
    who: nameOf(who),
    address: address ?? "",
    action,
    outcome: outcome === "refused" ? "refused" : "",
    target: target ? `${target.kind} ${target.id}` : "",
    href:
      target?.kind === "job"
        ? pathTo("jobs", target.id)
        : target?.kind === "case"
          ? pathTo("cases", target.id)
          : "",
    change: changeOf(entry),
  };
}
