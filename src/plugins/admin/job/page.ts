import * as v from "valibot";
import { LISTED_UPDATES } from "../../../core/entities/cases.ts";
import { defineRoute, type RouteDefinition } from "../../../core/http/route.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import { type StoredJob, toJob } from "../../../core/models/job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { JobWithCasesSchema, TimelineSchema } from "../answers/entities.ts";
import { chatPath } from "../chat/page.ts";
import { toCaseLine } from "../lists/rows.ts";
import type { AdminParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { toFacts } from "../views/facts.ts";
import { fold } from "../views/fold.ts";
import { countOf, formatCost, formatCount, toLabel } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { labelOf, linkPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { withRunning } from "../views/running.ts";
import { toStory } from "../views/story.ts";
import { toTimeline } from "../views/timeline.ts";
import { SHOWN_ENTRIES, toWaterfall } from "../views/waterfall.ts";
import { toWork } from "../views/work.ts";
import { jobActions } from "./actions.ts";
import { limitNote, toMeters } from "./meters.ts";
import { toNotes } from "./notes.ts";

/** Cases that a job's page shows; the rest are in the list of cases. */
const SHOWN_CASES = 50;
/** Children whose costs are added up. */
const SUMMED_CHILDREN = 1000;
const ALERTS = ["failed", "in_progress", "awaiting"] as const;
/** Forks that a job's page names, the newest first. */
const SHOWN_FORKS = 10;
/** Lines of the history that are shown unfolded. */
const SEEN_LINES = 40;

const PathSchema = v.object({ id: EntityIdSchema });

/** A job: page, API, timeline. */
export function jobRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: ["/admin/jobs/{id}", "Job page"],
      api: ["/admin/api/jobs/{id}", "Show a job with its cases"],
      params: PathSchema,
      answer: "The job",
      schema: JobWithCasesSchema,
      resource: async ({ params }) => jobResource(parts, await parts.jobs.get(params.id)),
    }),
    defineRoute({
      method: "GET",
      path: "/admin/api/jobs/{id}/timeline",
      auth: "session",
      summary: "What happened to a job, as spans of time",
      tag: "Admin",
      params: PathSchema,
      responses: {
        200: { description: "Rows with spans, in milliseconds since the epoch", schema: TimelineSchema },
      },
      handler: async ({ params }) => readWholeTimeline(parts, await parts.jobs.get(params.id)),
    }),
  ];
}

function jobResource(parts: AdminParts, job: StoredJob): Resource {
  return {
    page: "job",
    fragment: "job",
    json: async () => {
      const query = { where: { job_id: job.id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
      const { items } = await parts.cases.listWithUpdates(query, LISTED_UPDATES);
      return {
        ...toJob(
          job,
          items.map(({ id }) => id),
        ),
        cases: items,
      };
    },
    state: () => jobState(parts, job),
  };
}

async function readWholeTimeline(parts: AdminParts, job: StoredJob) {
  const query = { where: { job_id: job.id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
  const [cases, entries] = await Promise.all([parts.cases.list(query), parts.jobs.log(job.id)]);
  return toTimeline(job, cases.items, withRunning(parts, job.id, entries), parts.clock());
}

/** The first cases, and those that failed or are open, wherever they are. */
async function readCases({ cases }: AdminParts, job: StoredJob) {
  const where = { job_id: job.id };
  const [first, alerts] = await Promise.all([
    cases.list({ where, sort: "created_at", limit: SHOWN_CASES }),
    cases.list({ where: { ...where, status: ALERTS }, sort: "-updated_at", limit: SHOWN_CASES }),
  ]);
  const shown = new Map([...first.items, ...alerts.items].map((item) => [item.id, item]));
  return [...shown.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
}

/** The jobs that a job has started, and what they cost. */
async function readChildren({ jobs }: AdminParts, job: StoredJob) {
  const where = { parent_id: job.id };
  const counts = Object.entries(await jobs.countBy("status", { where }));
  if (counts.length === 0) return undefined;
  const text = counts.map(([status, count]) => `${formatCount(count)} ${labelOf(status).toLowerCase()}`);
  const { items, total } = await jobs.list({ where, limit: SUMMED_CHILDREN });
  const sum = items.reduce((cost, { total_cost }) => cost + total_cost, job.total_cost);
  return {
    href: withQuery("/admin/jobs", { parent_id: job.id }),
    text: text.join(", "),
    /** With the job's own; unknown where there are too many. */
    cost: total > SUMMED_CHILDREN ? undefined : sum,
  };
}

async function jobState(parts: AdminParts, job: StoredJob): Promise<Record<string, unknown>> {
  const now = parts.clock();
  const { currency } = parts.options;
  const [cases, children, entries, forks] = await Promise.all([
    readCases(parts, job),
    readChildren(parts, job),
    parts.jobs.logEnds(job.id, SHOWN_ENTRIES),
    parts.jobs.list({ where: { forked_from: job.id }, limit: SHOWN_FORKS }),
  ]);
  const timeline = toTimeline(job, cases, withRunning(parts, job.id, entries), now);
  const fall = toWaterfall(timeline, currency);
  const waited = fall.waited ? `, ${fall.waited} waiting for a person` : "";
  const times = fall.interruptions > 1 ? ` in ${countOf(fall.interruptions, "interruption")}` : "";
  const breaks = fall.downtime ? `, down for ${fall.downtime}${times}` : "";
  const context = job.job_context;
  const { job_instructions: _limits, ...shownContext } = context;
  const api = `/admin/api/jobs/${encodeURIComponent(job.id)}`;
  const agent = parts.agents.of(job);
  return {
    fall: {
      ...fall,
      summary: waited + breaks,
      hint: "Each case's page shows more of its own lines; the timeline in the API has all.",
    },
    work: toWork(entries, { now, currency }),
    story: fold(toStory(entries, now), SEEN_LINES, (count) =>
      countOf(count, "earlier entry", "earlier entries"),
    ),
    job: {
      id: job.id,
      name: job.name,
      api,
      live: withQuery("/admin/api/live", { job: job.id }),
      agent: agent?.definition.name ?? job.agent_name,
      chatHref: agent?.definition.chats ? chatPath(job.id) : "",
      agentHref: pathTo("agents", job.agent_name),
      status: statusPiece(job.status).toString(),
      actions: jobActions(job),
      notes: toNotes(job, {
        position: isTerminal(job.status) ? undefined : await parts.runner().position(job.id),
        hosted: agent !== undefined,
      }),
      // A held job says at the top why.
      error: job.held ? null : job.error,
      stopReason: job.stop_reason ? toLabel(job.stop_reason) : "",
      traceback: job.responses.findLast((response) => response.error_traceback)?.error_traceback ?? "",
      result: job.result === null ? "" : renderJson(job.result),
      caseCount: formatCount(job.case_count),
      casesHref: job.case_count > cases.length ? withQuery("/admin/cases", { job_id: job.id }) : "",
      cases: cases.map((item) => toCaseLine(item, { now, currency })),
      responses: job.responses.map((response) => ({
        message: response.message,
        status: statusPiece(response.status).toString(),
        payload: response.payload ? renderJson(response.payload) : "",
      })),
      facts: toFacts([
        ["Agent", agent ? linkPiece(pathTo("agents", agent.slug), agent.definition.name) : job.agent_name],
        ["Version", job.agent_version ?? undefined],
        ["Code", job.code_fingerprint ?? undefined],
        ["Parent", job.parent ? linkPiece(pathTo("jobs", job.parent.job_id), job.parent.job_id) : undefined],
        ["Children", children && linkPiece(children.href, children.text)],
        [
          "Fork of",
          job.forked_from && linkPiece(pathTo("jobs", job.forked_from.job_id), job.forked_from.job_id),
        ],
        ["Forks", forks.total > 0 ? linksTo(forks.items) : undefined],
        ["Mission", context.mission_name],
        ["Started by", context.started_by],
        ["Workspace", context.workspace_id],
        ["Created", timePiece(job.created_at, now)],
        ["Changed", timePiece(job.updated_at, now)],
        ["Finished", job.finished_at ? timePiece(job.finished_at, now) : undefined],
        ["Run number", formatCount(job.run_count)],
        ["Cost", formatCost(job.total_cost, currency)],
        [
          "Cost with children",
          children?.cost === undefined ? undefined : formatCost(children.cost, currency),
        ],
        ["Parameters", job.agent_parameters?.map((parameter) => String(parameter.name)).join(", ")],
      ]),
      meters: toMeters(job, now, currency),
      limitNote: limitNote(job),
      fields: renderJson(job.job_fields),
      context: renderJson(withoutNulls(shownContext)),
    },
  };
}

function withoutNulls(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function linksTo(jobs: readonly StoredJob[]): Html {
  return html`${jobs.map(({ id }, at) => html`${at > 0 ? ", " : ""}${linkPiece(pathTo("jobs", id), id)}`)}`;
}
