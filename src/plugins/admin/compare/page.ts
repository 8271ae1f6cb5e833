import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import { escapeHtml } from "../../../core/base/escape-html.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { ComparisonSchema } from "../answers/entities.ts";
import { KINDS, NOT_FINISHED, openPiece } from "../job/step-view.ts";
import { readBeside } from "../lists/failed-cases.ts";
import { toJobLine, toJobRow } from "../lists/rows.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { elapsed, formatCost, formatCount, formatDuration, toLabel } from "../views/format.ts";
import { renderJson } from "../views/json-tree.ts";
import { jobPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { type ComparedCall, type ComparedPair, compareJobs } from "./compare-jobs.ts";

/** Jobs of the same agent that are offered, the newest first. */
const OFFERED = 20;
/** Calls that differ which the page shows. */
const SHOWN = 200;
/** A value within a page of many. */
const BOUNDS = { nodes: 40, depth: 6, text: 400 };

const PathSchema = v.object({ id: EntityIdSchema });
const QuerySchema = filterQuery({ with: optionalText(EntityIdSchema) });

/** Two jobs side by side: page and API. */
export function compareRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    page: ["/admin/jobs/{id}/compare", "Compare page"],
    api: [
      "/admin/api/jobs/{id}/compare",
      "Compare two jobs",
      "The calls of the last run of each: of cases of the same name, with the same name. Without `with`, `right` is null and `calls` is empty.",
    ],
    params: PathSchema,
    query: QuerySchema,
    answer: "Both jobs, and their calls in pairs",
    schema: ComparisonSchema,
    seen: async ({ params, query }, seen) => {
      const left = await seen.jobs.get(params.id);
      const id = withoutEmpty(query).with;
      return compareResource(seen, left, id === undefined ? undefined : await seen.jobs.get(id));
    },
  });
}

function compareResource(parts: SeenParts, left: StoredJob, right: StoredJob | undefined): Resource {
  return {
    page: "compare",
    fragment: "compare",
    json: async () => {
      const beside = await readBeside(parts, [left.id, ...(right ? [right.id] : [])]);
      return {
        left: toJobRow(left, beside),
        right: right ? toJobRow(right, beside) : null,
        calls: right ? await compareJobs(parts, [left, right]) : [],
      };
    },
    state: async () => ({
      job: { name: left.name, href: pathTo("jobs", left.id), path: pathTo("jobs", left.id, "compare") },
      pair: right && (await toPairView(parts, left, right)),
      offered: right ? [] : await readOffered(parts, left),
    }),
  };
}

async function readOffered(parts: SeenParts, left: StoredJob) {
  const { items } = await parts.jobs.list({ where: { agent_name: left.agent_name }, limit: OFFERED + 1 });
  const beside = await readBeside(
    parts,
    items.map(({ id }) => id),
  );
  const context = { now: parts.clock(), currency: parts.options.currency, ...beside };
  return items
    .filter(({ id }) => id !== left.id)
    .slice(0, OFFERED)
    .map((job) => ({
      ...toJobLine(job, context),
      href: withQuery(pathTo("jobs", left.id, "compare"), { with: job.id }),
    }));
}

async function toPairView(parts: SeenParts, left: StoredJob, right: StoredJob) {
  const now = parts.clock();
  const { currency } = parts.options;
  const calls = await compareJobs(parts, [left, right]);
  const different = calls.filter(({ differs }) => differs.length > 0);
  const same = calls.filter(({ differs }) => differs.length === 0);
  const context = { left, right, currency };
  return {
    jobs: [left, right].map((job) => ({ name: job.name, id: job.id, href: pathTo("jobs", job.id) })),
    swap: withQuery(pathTo("jobs", right.id, "compare"), { with: left.id }),
    facts: toFacts(left, right, now, currency),
    isSameInput: isDeepStrictEqual(left.job_fields, right.job_fields),
    input: [left, right].map((job) => renderJson(job.job_fields)),
    isSameOutput: isDeepStrictEqual(left.result, right.result),
    output: [left, right].map((job) => (job.result === null ? "" : renderJson(job.result))),
    summary:
      calls.length === 0
        ? "Neither of them has recorded a call."
        : `${countOf(different.length, "call")} of ${formatCount(calls.length)} ${different.length === 1 ? "differs" : "differ"}.`,
    different: different.slice(0, SHOWN).map((pair) => toRow(pair, context)),
    more:
      different.length > SHOWN
        ? `${formatCount(different.length - SHOWN)} more differ; the API has all.`
        : "",
    same: same.slice(0, SHOWN).map((pair) => toRow(pair, context)),
    sameTitle: `${countOf(same.length, "call")} with the same result`,
  };
}

/** Facts whose difference may explain another one: times and costs always differ. */
const TELLING: ReadonlySet<string> = new Set(["Status", "Agent", "Code", "Error", "Cases"]);

function toFacts(left: StoredJob, right: StoredJob, now: Date, currency: string) {
  const of = (label: string, text: (job: StoredJob) => string) => {
    const [one, other] = [text(left), text(right)];
    return { label, left: one, right: other, differs: TELLING.has(label) && one !== other };
  };
  return [
    of("Status", (job) => jobPiece(job).toString()),
    of("Agent", (job) => escapeHtml([job.agent_name, job.agent_version].filter(Boolean).join(" "))),
    of("Code", (job) => escapeHtml(job.code_fingerprint ?? "–")),
    of("Error", (job) => escapeHtml(job.error ?? "–")),
    of("Duration", (job) => formatDuration(elapsed(job.created_at, job.finished_at, now))),
    of("Cost", (job) => escapeHtml(formatCost(job.total_cost, currency))),
    of("Cases", (job) => formatCount(job.case_count)),
    of("Runs", (job) => formatCount(job.run_count)),
    of("Created", (job) => timePiece(job.created_at, now).toString()),
  ];
}

function toRow(
  { case_name, name, kind, differs, left, right }: ComparedPair,
  context: { readonly left: StoredJob; readonly right: StoredJob; readonly currency: string },
) {
  const { currency } = context;
  return {
    name,
    caseName: case_name ?? "",
    kind: KINDS[kind as Kind] ?? toLabel(kind),
    differs: differs.map((one) => (one === "missing" ? "only in one" : one)).join(", "),
    left: left && toSide(left, { job: context.left, kind, differs, currency }),
    right: right && toSide(right, { job: context.right, kind, differs, currency }),
  };
}

type Kind = keyof typeof KINDS;

function statusIn(job: StoredJob, { status }: ComparedCall, kind: string) {
  if (status !== "open") return statusPiece(status);
  return isTerminal(job.status) ? NOT_FINISHED : openPiece(kind in KINDS ? (kind as Kind) : "step");
}

function toSide(
  call: ComparedCall,
  {
    job,
    kind,
    differs,
    currency,
  }: {
    readonly job: StoredJob;
    readonly kind: string;
    readonly differs: ComparedPair["differs"];
    readonly currency: string;
  },
) {
  const shown = (field: "input" | "output") =>
    (differs.includes(field) || differs.includes("missing")) && call[field] !== null
      ? renderJson(call[field], BOUNDS)
      : "";
  return {
    href: withQuery(pathTo("jobs", job.id), { step: call.step }),
    status: statusIn(job, call, kind).toString(),
    about: [
      call.duration === null ? "" : formatDuration(call.duration),
      call.cost ? formatCost(call.cost, currency) : "",
      call.attempts > 1 ? countOf(call.attempts, "attempt") : "",
    ]
      .filter(Boolean)
      .join(" · "),
    error: call.error ?? "",
    input: shown("input"),
    output: shown("output"),
  };
}
