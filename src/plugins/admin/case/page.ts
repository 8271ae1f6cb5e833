import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { CaseSchema, type StoredCase } from "../../../core/models/case.ts";
import type { CaseNode } from "../../../core/models/case-node.ts";
import type { CaseNodeUpdate } from "../../../core/models/case-node-update.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { RunEntry } from "../../../core/models/run-entry.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { filesView, viewPath } from "../files/file-views.ts";
import { readShownFiles } from "../files/shown-files.ts";
import { toAskView } from "../inbox/ask-view.ts";
import type { ActionView } from "../job/actions.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { offeredTo } from "../viewer.ts";
import { readAnswer, renderAnswer } from "../views/conversation.ts";
import { toFacts } from "../views/facts.ts";
import { formatCost, formatCount, toLabel } from "../views/format.ts";
import { renderJson } from "../views/json-tree.ts";
import { linkPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { withRunning } from "../views/running.ts";
import { toTimeline } from "../views/timeline.ts";
import { SHOWN_ENTRIES, toWaterfall } from "../views/waterfall.ts";
import { toWork } from "../views/work.ts";

const PathSchema = v.object({ id: EntityIdSchema });
/** `line` is the first line of a page of the timeline. */
const QuerySchema = filterQuery({
  line: optionalText(v.pipe(v.string(), v.regex(/^\d{1,9}$/, "must be a whole number"), v.transform(Number))),
});
/** Number of newest updates that are shown unfolded. */
const SHOWN_UPDATES = 200;

/** A case: page and API. */
export function caseRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    page: ["/admin/cases/{id}", "Case page"],
    api: [
      "/admin/api/cases/{id}",
      "Show a case with its updates and final delivery",
      "The case with its whole history, oldest first.",
    ],
    params: PathSchema,
    query: QuerySchema,
    answer: "The case",
    schema: CaseSchema,
    seen: async ({ params, query }, seen) =>
      caseResource(seen, await seen.cases.summary(params.id), withoutEmpty(query).line),
  });
}

function caseResource(parts: SeenParts, item: StoredCase, line: number | undefined): Resource {
  return {
    page: "case",
    fragment: "case",
    json: () => parts.cases.get(item.id),
    state: () => caseState(parts, item, line),
  };
}

async function caseState(
  parts: SeenParts,
  item: StoredCase,
  line: number | undefined,
): Promise<Record<string, unknown>> {
  const now = parts.clock();
  const { currency } = parts.options;
  const job = await parts.jobs.find(item.job_id);
  const entries = job ? await parts.jobs.logEnds(job.id, SHOWN_ENTRIES) : [];
  const updates = await parts.cases.updates(item.id, SHOWN_UPDATES);
  const isAsking = item.question && item.status === "awaiting";
  // Who sees only the question sees nothing of the job that asks it.
  const shown = job ? withRunning(parts, job.id, entries) : [];
  return {
    fall: {
      ...toWaterfall(caseTimeline(job, item, { entries: shown, now }), {
        currency,
        path: pathTo("jobs", item.job_id),
        jobId: item.job_id,
        query: { case: item.id, line },
      }),
    },
    work: toWork(entries, {
      ...{ now, currency, caseId: item.id },
      link: (file) => viewPath(item.job_id, file),
    }),
    ask: isAsking
      ? toAskView(item, { now, caller: parts.caller, job, files: await readShownFiles(parts, item) })
      : undefined,
    files: job ? await filesView(parts, item.job_id, { now, caseId: item.id }) : undefined,
    item: {
      id: item.id,
      name: item.name,
      description: item.description === item.name ? "" : item.description,
      api: withQuery(`/admin/api/cases/${encodeURIComponent(item.id)}`, { line }),
      live: withQuery("/admin/api/live", { job: job?.id }),
      jobHref: job ? pathTo("jobs", item.job_id) : "",
      jobName: job?.name ?? item.job_id,
      status: statusPiece(item.status).toString(),
      error: item.status === "failed" ? (item.last_error ?? "") : "",
      actions: caseActions(item, parts.caller),
      delivery: item.final_delivery ? renderJson(item.final_delivery) : "",
      updateCount: formatCount(item.update_count),
      updates: toUpdates(updates, now, currency),
      facts: toFacts([
        ["Job", job ? linkPiece(pathTo("jobs", job.id), job.name) : item.job_id],
        ["Reference", item.ref === item.id ? undefined : item.ref],
        ["Workspace", item.account.workspace_id],
        ["Opened", timePiece(item.created_at, now)],
        ["Changed", timePiece(item.updated_at, now)],
        ["Finished", item.finished_at ? timePiece(item.finished_at, now) : undefined],
        ["Cost", formatCost(item.total_cost, currency)],
        ["Answered by", answerersOf(entries, item.id)],
      ]),
      nodes: await toNodes(parts, job, item),
    },
  };
}

/** Who answered the questions of a case, the first one first. */
function answerersOf(entries: readonly LogEntry<RunEntry>[], caseId: string): string {
  const by = entries.flatMap(({ entry }) =>
    entry.type === "answer" && entry.case_id === caseId ? (entry.by ?? []) : [],
  );
  return [...new Set(by)].join("; ");
}

/** The case's own lines, on its own axis. */
function caseTimeline(
  job: StoredJob | undefined,
  item: StoredCase,
  { entries, now }: { entries: Parameters<typeof toTimeline>[2]; now: Date },
) {
  const from = Date.parse(item.created_at);
  const to = Math.max(from + 1, item.finished_at ? Date.parse(item.finished_at) : now.getTime());
  if (!job) return { from, to, rows: [], interruptions: 0, downtime: 0, waited: 0 };
  const whole = toTimeline(job, [item], entries, now);
  return { ...whole, from, to, rows: whole.rows.filter((row) => row.case_id === item.id) };
}

function toUpdates(updates: readonly CaseNodeUpdate[], now: Date, currency: string) {
  return updates.toReversed().map((update) => ({
    index: update.index ?? "",
    name: update.name ?? (update.is_final ? "Final" : "Update"),
    cost: update.cost ? formatCost(update.cost, currency) : "",
    time: timePiece(update.created_at, now).toString(),
    error: update.error ?? "",
    payload: renderPayload(update.payload),
    tone: update.error ? "bad" : update.is_final ? "good" : "",
  }));
}

/**
 * A question's form is not shown as data: the page shows it as a form, the API returns it in full. A model's answer is
 * shown as what it says.
 */
function renderPayload(payload: CaseNodeUpdate["payload"]): string {
  const answer = payload && "usage" in payload ? readAnswer(payload) : undefined;
  if (answer) return renderAnswer(answer).toString();
  const { supervaizer_form: _form, question: _question, ...rest } = payload ?? {};
  const shown = payload && "supervaizer_form" in payload ? rest : { ...payload };
  // An answer without a message.
  if ("answer" in shown && shown.message === null) delete shown.message;
  return Object.keys(shown).length > 0 ? renderJson(shown) : "";
}

/** The plan that the method declares, and which of its nodes the case has passed. */
async function toNodes(parts: SeenParts, job: StoredJob | undefined, item: StoredCase) {
  const declared = job ? (parts.agents.of(job)?.definition.methods.job_start.nodes ?? []) : [];
  if (declared.length === 0) return [];
  const names = new Map((await parts.cases.updates(item.id)).map((update) => [update.name, update]));
  return declared.map((node: Pick<CaseNode, "name" | "type"> & Partial<CaseNode>) => {
    const update = names.get(node.name);
    return {
      name: node.name,
      type: toLabel(node.type),
      description: node.description ?? "",
      state: update ? (update.error ? "failed" : "done") : "",
      tone: update ? (update.error ? "bad" : "good") : "",
    };
  });
}

function caseActions(item: StoredCase, caller: Caller): ActionView[] {
  const may = offeredTo(caller);
  const to = (action: string) => pathTo("cases", item.id, action);
  return [
    ...(may.manage ? [{ label: "Set status", href: to("status"), icon: "edit", style: "" }] : []),
    ...(may.operate ? [{ label: "Delete", href: to("delete"), icon: "trash", style: "danger" }] : []),
  ];
}
