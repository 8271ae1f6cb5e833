import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import { exactSum } from "../../../core/base/exact-amount.ts";
import { LISTED_UPDATES } from "../../../core/entities/cases.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import { type StoredJob, toJob } from "../../../core/models/job.ts";
import { isIn } from "../../../core/models/job-state.ts";
import type { RunEntry } from "../../../core/models/run-entry.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { RunRecord } from "../../../core/runs/replay/run-record.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { seenRoute } from "../admin-route.ts";
import { JobLogSchema, JobWithCasesSchema, TimelineSchema } from "../answers/entities.ts";
import { chatPath } from "../chat/page.ts";
import { filesView, viewPath } from "../files/file-views.ts";
import { countFailed } from "../lists/failed-cases.ts";
import { toCaseLine } from "../lists/rows.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { offeredTo } from "../viewer.ts";
import { type Call, collectCalls } from "../views/calls.ts";
import { type FactLine, toFacts } from "../views/facts.ts";
import { fold } from "../views/fold.ts";
import { formatCost, formatCount } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { labelOf, linkPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { withRunning } from "../views/running.ts";
import { toStory } from "../views/story.ts";
import { summaryOf } from "../views/summary.ts";
import { type TimelineCase, toTimeline } from "../views/timeline.ts";
import { SHOWN_ENTRIES, toWaterfall, type WaterfallView } from "../views/waterfall.ts";
import { countWork, toWork } from "../views/work.ts";
import { SPAN } from "../views/zoom.ts";
import { type ActionView, jobActions } from "./actions.ts";
import { limitNote, toMeters } from "./meters.ts";
import { toNotes } from "./notes.ts";
import { duringRun, type JobRun, runsOf } from "./runs.ts";
import { firstCall, toStepView } from "./step-view.ts";
import { TAB_NAMES, type TabName, toTabs } from "./tabs.ts";
import { toVerdict } from "./verdict.ts";

/** Cases that a job's page shows; the rest are in the list of cases. */
const SHOWN_CASES = 50;
/** Children whose costs are added up. */
const SUMMED_CHILDREN = 1000;
const ALERTS = ["failed", "in_progress", "awaiting"] as const;
/** Forks that a job's page names, the newest first. */
const SHOWN_FORKS = 10;
/** Lines of its log that a job's page shows. */
const SHOWN_LINES = 100;
/** Lines of the history that are shown unfolded, and all that the page has. */
const SEEN_LINES = 20;
const MOST_STORY = 100;
/** Facts that every tab has, in the head of the page. */
const HEAD_FACTS: readonly string[] = [
  "Agent",
  "Version",
  "Parent",
  "Children",
  "Fork of",
  "Forks",
  "Tags",
  "Started by",
  "Created",
];

const PathSchema = v.object({ id: EntityIdSchema });
const whole = v.pipe(v.string(), v.regex(/^\d{1,9}$/, "must be a whole number"), v.transform(Number));
/** What the page shows of the job: a tab, a step, a case, a run, a page of lines, those that failed, or a part of the time. */
const QuerySchema = filterQuery({
  step: optionalText(v.pipe(v.string(), v.maxLength(250))),
  case: optionalText(EntityIdSchema),
  run: optionalText(whole),
  line: optionalText(whole),
  tab: optionalText(v.picklist(TAB_NAMES)),
  only: optionalText(v.literal("failed")),
  span: optionalText(
    v.pipe(v.string(), v.regex(SPAN, "must be two times in milliseconds, such as 1200-5400")),
  ),
});
type View = ReturnType<typeof withoutEmpty<v.InferOutput<typeof QuerySchema>>>;

/** A job: page, API, timeline. */
export function jobRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/jobs/{id}", "Job page"],
      api: [
        "/admin/api/jobs/{id}",
        "Show a job with its cases",
        "The job as its page shows it, with the newest of its cases.",
      ],
      params: PathSchema,
      query: QuerySchema,
      answer: "The job",
      schema: JobWithCasesSchema,
      seen: async ({ params, query }, seen) =>
        jobResource(seen, await seen.jobs.get(params.id), withoutEmpty(query)),
    }),
    seenRoute(parts, {
      method: "GET",
      path: "/admin/api/jobs/{id}/timeline",
      needs: "view",
      summary: "What happened to a job, as spans of time",
      description:
        "Steps, questions and waits of the job and of its cases, with their beginnings, ends and costs.",
      params: PathSchema,
      responses: {
        200: { description: "Rows with spans, in milliseconds since the epoch", schema: TimelineSchema },
      },
      handler: async ({ params }, seen) => readWholeTimeline(seen, await seen.jobs.get(params.id)),
    }),
    seenRoute(parts, {
      method: "GET",
      path: "/admin/api/jobs/{id}/log",
      needs: "view",
      summary: "Last lines that a job has logged",
      description: "They are kept with the job, stored about once a second.",
      params: PathSchema,
      responses: { 200: { description: "Lines, oldest first", schema: JobLogSchema } },
      handler: async ({ params }, seen) => {
        const { id } = await seen.jobs.get(params.id);
        return { items: await seen.jobLog.read(id) };
      },
    }),
  ];
}

function jobResource(parts: SeenParts, job: StoredJob, view: View): Resource {
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
    state: () => jobState(parts, job, view),
  };
}

async function readWholeTimeline(parts: SeenParts, job: StoredJob) {
  const query = { where: { job_id: job.id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
  const [cases, entries] = await Promise.all([parts.cases.list(query), parts.jobs.log(job.id)]);
  return toTimeline(job, cases.items, withRunning(parts, job.id, entries), parts.clock());
}

/** The first cases, and those that failed or are open, wherever they are. */
async function readCases({ cases }: SeenParts, job: StoredJob) {
  const where = { job_id: job.id };
  const [first, alerts] = await Promise.all([
    cases.list({ where, sort: "created_at", limit: SHOWN_CASES }),
    cases.list({ where: { ...where, status: ALERTS }, sort: "-updated_at", limit: SHOWN_CASES }),
  ]);
  const shown = new Map([...first.items, ...alerts.items].map((item) => [item.id, item]));
  return [...shown.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
}

/** The jobs that a job has started, and what they cost. */
async function readChildren({ jobs }: SeenParts, job: StoredJob) {
  const where = { parent_id: job.id };
  const counts = Object.entries(await jobs.countBy("status", { where }));
  if (counts.length === 0) return undefined;
  const text = counts.map(([status, count]) => `${formatCount(count)} ${labelOf(status).toLowerCase()}`);
  const { items, total } = await jobs.list({ where, limit: SUMMED_CHILDREN });
  return {
    href: withQuery("/admin/jobs", { parent_id: job.id }),
    text: text.join(", "),
    /** With the job's own; unknown where there are too many. */
    cost: total > SUMMED_CHILDREN ? undefined : exactSum([job, ...items].map(({ total_cost }) => total_cost)),
  };
}

async function jobState(parts: SeenParts, job: StoredJob, view: View): Promise<Record<string, unknown>> {
  const now = parts.clock();
  const { currency } = parts.options;
  const [cases, failedCases, entries] = await Promise.all([
    readCases(parts, job),
    countFailed(parts, [job.id]).then((counts) => counts[job.id] ?? 0),
    parts.jobs.logEnds(job.id, SHOWN_ENTRIES),
  ]);
  const runs = runsOf(job, entries);
  const run = findRun(runs, view);
  const isLast = run === runs.at(-1);
  const recorded = isLast ? withRunning(parts, job.id, run.entries) : run.entries.map(({ entry }) => entry);
  const calls = collectCalls(recorded, run.before);
  const tab = view.tab ?? "timeline";
  const shown: Shown = { job, view, cases, entries, runs, run, isLast, recorded, calls, now, currency };
  const [content, facts] = await Promise.all([CONTENT[tab](parts, shown), readFacts(parts, job, now)]);
  const agent = parts.agents.of(job);
  const api = `/admin/api/jobs/${encodeURIComponent(job.id)}`;
  const isStuck = isIn(job, "running") && (await parts.attention.stuck()).includes(job.id);
  const verdict = toVerdict(job, {
    ...{ calls, caseNames: content.names ?? new Map(cases.map(({ id, name }) => [id, name])) },
    ...{ runs: runs.length, now, currency, failedCases, isStuck },
  });
  const { main, aside, more } = splitActions(
    jobActions(job, { hosted: agent !== undefined, caller: parts.caller }),
  );
  return {
    ...content,
    verdict: { ...verdict, main },
    tabs: toTabs(tab, countWork(entries)),
    job: {
      id: job.id,
      name: job.name,
      api: withQuery(api, view),
      live: withQuery("/admin/api/live", { job: job.id }),
      agent: agent?.definition.name ?? job.agent_name,
      chatHref: agent?.definition.chats ? chatPath(job.id) : "",
      agentHref: pathTo("agents", job.agent_name),
      aside,
      more,
      notes: toNotes(job, {
        now,
        isPaused: Boolean((await parts.settings.find(job.agent_name))?.paused),
        countsLine: parts.caller.sight === undefined,
        position: isTerminal(job.status) ? undefined : await parts.runner().position(job.id),
        hosted: agent !== undefined,
      }),
      head: facts.filter(({ name }) => HEAD_FACTS.includes(name)),
      facts,
      meters:
        tab === "history"
          ? await toMeters(job, () => RunRecord.of(parts.jobs, job.id), { now, currency })
          : [],
      limitNote: limitNote(job),
    },
  };
}

/** What a tab of the page is made from. */
interface Shown {
  readonly job: StoredJob;
  readonly view: View;
  readonly cases: readonly StoredCase[];
  readonly entries: readonly LogEntry<RunEntry>[];
  readonly runs: readonly JobRun[];
  /** The run that is shown, and its calls. */
  readonly run: JobRun;
  readonly isLast: boolean;
  readonly recorded: readonly RunEntry[];
  readonly calls: readonly Call[];
  readonly now: Date;
  readonly currency: string;
}

type Content = Readonly<Record<string, unknown>> & { readonly names?: ReadonlyMap<string, string> };

/** Only what the open tab shows is read. */
const CONTENT: Readonly<Record<TabName, (parts: SeenParts, shown: Shown) => Promise<Content>>> = {
  timeline: timelineTab,
  log: logTab,
  calls: async (_, { job, cases, entries, now, currency }) => ({
    hasCalls: true,
    work: toWork(entries, { now, currency, cases, link: (file) => viewPath(job.id, file) }),
  }),
  history: async ({ caller }, { job, entries }) => {
    const story = toStory(entries, job);
    const { job_instructions: _limits, ...context } = job.job_context;
    return {
      history: {
        story: fold(story.slice(0, MOST_STORY), SEEN_LINES, (count) =>
          countOf(count, "earlier entry", "earlier entries"),
        ),
        note: story.length > MOST_STORY ? `The newest ${MOST_STORY} entries.` : "",
        responses: job.responses.map((response) => ({
          message: response.message,
          status: statusPiece(response.status).toString(),
          payload: response.payload ? renderJson(response.payload) : "",
        })),
        context: renderJson(withoutNulls(context)),
        revokeHref: offeredTo(caller).start ? pathTo("jobs", job.id, "revoke-tokens") : "",
      },
    };
  },
};

async function timelineTab(parts: SeenParts, shown: Shown): Promise<Content> {
  const { job, view, cases, entries, runs, run, isLast, recorded, calls, now, currency } = shown;
  const during = runs.length > 1 ? duringRun(job, cases, run) : { job, cases };
  const failed =
    job.status === "completed" ? during.cases.find(({ status }) => status === "failed") : undefined;
  const picked =
    view.case === undefined
      ? (calls.find(({ id }) => id === view.step) ?? firstCall(calls, failed?.id))
      : undefined;
  const openedCase = view.case ?? (picked ? undefined : failed?.id);
  const draw = (some: readonly StoredCase[]) =>
    toWaterfall(
      toTimeline(during.job, [...some, ...recordedCases(some, recorded)], recorded, now, run.before),
      {
        ...{ currency, jobId: job.id },
        query: { ...view, run: isLast ? undefined : run.number },
        ...{ step: picked?.id, case: openedCase },
      },
    );
  const drawn = async () => {
    let known = during.cases;
    let fall = draw(known);
    // With the times of the cases that are read, others may be among the lines that are shown.
    for (let turn = 0; turn < 3; turn++) {
      const further = await readFurther(parts, { known, picked, fall });
      if (further.length === 0) break;
      known = [...known, ...further];
      fall = draw(known);
    }
    return { known, fall };
  };
  const [{ known, fall }, files] = await Promise.all([drawn(), filesView(parts, job.id, { now })]);
  const names = new Map([...cases, ...known].map(({ id, name }) => [id, name]));
  const summary = summaryOf(fall);
  // What is beside it would not fit a time that grows.
  const grows = job.finished_at === null && runs.length === 1 && summary === "" && !fall.zoom?.label;
  return {
    names,
    fall: {
      ...fall,
      summary,
      since: grows ? job.created_at : "",
      runs: runs.length > 1 ? runs.map((one) => toRunTab(one, { run, runs })) : [],
    },
    step:
      picked &&
      toStepView(picked, {
        jobId: job.id,
        run: isLast ? undefined : run.number,
        line: entries.find(({ entry }) => entry === picked.entry)?.seq,
        caseName: names.get(picked.case_id ?? ""),
        now,
        currency,
      }),
    opened: openedCase === undefined ? undefined : toOpened(cases, openedCase, { now, currency }),
    files,
    timeline: {
      input: Object.keys(job.job_fields).length > 0 ? renderJson(job.job_fields) : "",
      output: job.result === null ? "" : renderJson(job.result),
      noOutput: isTerminal(job.status) ? "No result." : "Not yet.",
      caseCount: formatCount(job.case_count),
      casesShown:
        job.case_count > cases.length
          ? `${formatCount(cases.length)} of ${countOf(job.case_count, "case")}: the first ones, and the last ones that failed or are open`
          : "",
      casesHref: job.case_count > cases.length ? withQuery("/admin/cases", { job_id: job.id }) : "",
      cases: cases.map((item) => toCaseLine(item, { now, currency })),
    },
  };
}

async function logTab(parts: SeenParts, { job }: Shown): Promise<Content> {
  const logged = await parts.jobLog.read(job.id);
  return {
    log: {
      count: formatCount(logged.length),
      note: logged.length > SHOWN_LINES ? `The last ${SHOWN_LINES} lines.` : "",
      href: `/admin/api/jobs/${encodeURIComponent(job.id)}/log`,
      lines: logged.slice(-SHOWN_LINES).map((line) => ({ ...line, clock: line.time.slice(11, 23) })),
    },
  };
}

async function readFacts(parts: SeenParts, job: StoredJob, now: Date): Promise<FactLine[]> {
  const [children, forks] = await Promise.all([
    readChildren(parts, job),
    parts.jobs.list({ where: { forked_from: job.id }, limit: SHOWN_FORKS }),
  ]);
  const { currency } = parts.options;
  const agent = parts.agents.of(job);
  const context = job.job_context;
  return toFacts([
    ["Agent", agent ? linkPiece(pathTo("agents", agent.slug), agent.definition.name) : job.agent_name],
    ["Version", job.agent_version ?? undefined],
    ["Code", job.code_fingerprint ?? undefined],
    ["Parent", await linkTo(parts, job.parent?.job_id)],
    ["Children", children && linkPiece(children.href, children.text)],
    ["Fork of", await linkTo(parts, job.forked_from?.job_id)],
    ["Forks", forks.total > 0 ? linksTo(forks.items) : undefined],
    ["Tags", job.tags && tagLinks(job.tags)],
    ["Mission", context.mission_name],
    [
      "Started by",
      linkPiece(withQuery("/admin/jobs", { started_by: context.started_by }), context.started_by),
    ],
    ["Workspace", context.workspace_id],
    ["Created", timePiece(job.created_at, now)],
    ["Changed", timePiece(job.updated_at, now)],
    ["Finished", job.finished_at ? timePiece(job.finished_at, now) : undefined],
    ["Starts and resumes", formatCount(job.run_count)],
    ["Cost", formatCost(job.total_cost, currency)],
    ["Cost with children", children?.cost === undefined ? undefined : formatCost(children.cost, currency)],
    ["Parameters", job.agent_parameters?.map((parameter) => String(parameter.name)).join(", ")],
  ]);
}

/** Cases that the page has not read, as far as the log has them. */
function recordedCases(known: readonly StoredCase[], entries: readonly RunEntry[]): TimelineCase[] {
  const ids = new Set(known.map(({ id }) => id));
  const found = new Map<string, TimelineCase>();
  for (const entry of entries) {
    if (entry.type !== "call") continue;
    if (entry.call === "open_case") {
      const id = entry.result;
      if (typeof id !== "string" || ids.has(id)) continue;
      const base = { id, name: entry.name, created_at: entry.at, finished_at: null };
      found.set(id, { ...base, status: "in_progress", total_cost: 0, last_error: null });
      continue;
    }
    const item = found.get(entry.case_id ?? "");
    if (!item) continue;
    const end = entry.call === "close" ? { finished_at: entry.at, status: "completed" as const } : {};
    found.set(item.id, { ...item, ...end, total_cost: item.total_cost + (entry.cost ?? 0) });
  }
  return [...found.values()];
}

/** The cases that the timeline draws, as far as they were not read. */
async function readFurther(
  { cases }: SeenParts,
  { known, picked, fall }: { known: readonly StoredCase[]; picked: Call | undefined; fall: WaterfallView },
): Promise<StoredCase[]> {
  const ids = new Set(known.map(({ id }) => id));
  const drawn = fall.parts.flatMap(({ items }) => items.flatMap((row) => row.caseId ?? []));
  const wanted = [...new Set([...drawn, ...(picked?.case_id === undefined ? [] : [picked.case_id])])];
  const missing = wanted.filter((id) => !ids.has(id));
  if (missing.length === 0) return [];
  return (await cases.list({ where: { id: missing }, limit: missing.length })).items;
}

/** The run that an address names, or that has the step; else the last one. */
function findRun(runs: readonly JobRun[], { run, step }: View): JobRun {
  const named = runs.find(({ number }) => number === run);
  if (named || step === undefined || runs.length === 1) return named ?? runs.at(-1)!;
  const has = ({ entries }: JobRun) =>
    collectCalls(entries.map(({ entry }) => entry)).some(({ id }) => id === step);
  return runs.findLast(has) ?? runs.at(-1)!;
}

function toRunTab(one: JobRun, { run, runs }: { run: JobRun; runs: readonly JobRun[] }) {
  return {
    label: `Run ${one.number}`,
    status: labelOf(one.status),
    href: one === runs.at(-1) ? "?" : `?run=${one.number}`,
    current: one === run,
  };
}

/** The case whose line is open. */
function toOpened(
  cases: readonly StoredCase[],
  id: string,
  { now, currency }: { now: Date; currency: string },
) {
  const item = cases.find((one) => one.id === id);
  return item && { ...toCaseLine(item, { now, currency }), error: item.last_error ?? "" };
}

/** The action that the verdict shows, the one beside the title, and the others, in a menu. */
function splitActions(all: readonly ActionView[]) {
  const main =
    all.find(({ style }) => style === "main") ??
    all.find(({ label }) => label === "Retry" || label === "Stop");
  const others = all.filter((action) => action !== main);
  return {
    main: main && { ...main, style: main.label === "Stop" ? "" : "main" },
    aside: others.filter(({ isBeside }) => isBeside),
    more: others.filter(({ isBeside }) => !isBeside),
  };
}

function withoutNulls(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function tagLinks(tags: readonly string[]): Html {
  return html`<span class="tags">${tags.map((tag) => html`<a class="tag" href="${withQuery("/admin/jobs", { tag })}">${tag}</a>`)}</span>`;
}

function linksTo(jobs: readonly StoredJob[]): Html {
  return html`${jobs.map(({ id }, at) => html`${at > 0 ? ", " : ""}${linkPiece(pathTo("jobs", id), id)}`)}`;
}

/** A job that this one names, where the reader sees it. */
async function linkTo({ jobs }: SeenParts, id: string | undefined): Promise<Html | undefined> {
  return id !== undefined && (await jobs.find(id)) ? linkPiece(pathTo("jobs", id), id) : undefined;
}
