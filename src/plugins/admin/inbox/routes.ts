import * as v from "valibot";
import { describeProblems, readFields as readCoreFields } from "../../../core/agents/fields.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import { pageQuery } from "../../../core/http/query.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { CaseUpdateRequestSchema } from "../../../core/models/question.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { redirect } from "../answer.ts";
import { AnsweredSchema, InboxItemSchema, pageOf } from "../answers/entities.ts";
import { flashCookie } from "../flash.ts";
import { readFields } from "../forms/fields.ts";
import { readForm } from "../forms/read-form.ts";
import { toPageOf } from "../lists/page-of.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { type Resource, renderFragment, renderPage } from "../respond.ts";
import { countOf, formatCount } from "../views/format.ts";
import { kindOfQuestion, withAgents } from "./alike.ts";
import { alikeRoutes } from "./alike-page.ts";
import { toAskView } from "./ask-view.ts";
import { readInbox, toInboxItem } from "./read-inbox.ts";

/** Updates of a case that are shown beside its question. */
const EVIDENCE = 4;

const PathSchema = v.object({ id: EntityIdSchema });
const QuerySchema = filterQuery({
  ...pageQuery({ max: 100, default: 20 }),
  job_id: optionalText(EntityIdSchema),
});
type Query = v.InferOutput<typeof QuerySchema>;

/** The inbox, and answering from it. */
export function inboxRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      page: ["/admin/inbox", "Inbox page"],
      api: ["/admin/api/inbox", "List open questions"],
      query: QuerySchema,
      answer: "Open questions, the most urgent first",
      schema: pageOf(InboxItemSchema),
      resource: ({ query }) => inboxResource(parts, query),
    }),
    defineRoute({
      method: "POST",
      path: "/admin/api/cases/{id}/answer",
      auth: "session",
      summary: "Answer a case's question",
      description: "The first answer wins; a later one is refused with 409.",
      tag: "Admin",
      params: PathSchema,
      body: CaseUpdateRequestSchema,
      responses: { 200: { description: "The answer was accepted", schema: AnsweredSchema } },
      handler: async ({ params, body, caller }) => {
        const { job_id } = await parts.cases.summary(params.id);
        const item = await parts.runner().answer(job_id, params.id, body, caller);
        return { message: `The answer to case "${item.id}" was accepted`, id: item.id, status: item.status };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/admin/cases/{id}/answer",
      auth: "session",
      summary: "Answer a question with its form",
      tag: "Admin",
      hidden: true,
      params: PathSchema,
      responses: { 303: { description: "Redirect to the inbox" } },
      handler: ({ params, event, caller }) => answerByForm(parts, event, { id: params.id, caller }),
    }),
    ...alikeRoutes(parts),
  ];
}

function inboxResource(parts: AdminParts, given: Query): Resource {
  const query = withoutEmpty(given);
  return {
    page: "inbox",
    fragment: "inbox",
    json: async () => {
      const { items, total } = await readInbox(parts, query);
      return toPageOf(items.map(toInboxItem), { total, limit: query.limit, skip: query.skip });
    },
    state: async () => {
      const { items, total } = await readInbox(parts, query);
      const { limit, skip, job_id } = query;
      const to = (at: number) => withQuery("/admin/inbox", { job_id, skip: at || undefined });
      return {
        summary:
          total === 0 ? "No open questions." : `${countOf(total, "open question")}, the most urgent first.`,
        asks: await renderAsks(parts, items),
        range: `${formatCount(Math.min(skip + 1, total))}–${formatCount(Math.min(skip + limit, total))} of ${formatCount(total)}`,
        previous: skip > 0 ? to(Math.max(0, skip - limit)) : "",
        next: skip + limit < total ? to(skip + limit) : "",
      };
    },
  };
}

async function renderAsks(parts: AdminParts, items: readonly StoredCase[]): Promise<string[]> {
  const now = parts.clock();
  const questions = await withAgents(parts, items);
  const kinds = questions.map(kindOfQuestion);
  return Promise.all(
    questions.map(async ({ item, agent }, index) => {
      const isFirst = kinds.indexOf(kinds[index]) === index;
      const alike = isFirst ? kinds.filter((kind) => kind === kinds[index]).length : 1;
      const evidence = (await parts.cases.updates(item.id, EVIDENCE)).filter(({ payload }) => payload);
      return parts.renderer.render("fragments/ask", {
        ask: { ...toAskView(item, { now, agent, evidence }), alike: alike > 1 },
      });
    }),
  );
}

async function answerByForm(
  parts: AdminParts,
  event: HttpEvent,
  { id, caller }: { id: string; caller: Caller },
): Promise<Response> {
  const form = await readForm(event);
  const item = await parts.cases.summary(id);
  const answer = readFields(form, item.question?.fields ?? []);
  const message = form.get("message") || null;
  const now = parts.clock();
  const job = await parts.jobs.find(item.job_id);
  const agent = job?.agent_name ?? "";
  const verdict = item.question ? await readCoreFields(item.question.fields).check(answer) : undefined;
  if (verdict?.ok === false) {
    if (wantsJson(event)) throw invalidAnswer(verdict.problems);
    return refused(parts, event, {
      item,
      error: invalidAnswer(verdict.problems),
      problems: verdict.problems,
      typed: form,
      agent,
    });
  }
  try {
    // A form that was open when the question changed must not answer the new one.
    if (item.question && form.get("question_id") !== item.question.id) throw settled(item);
    const question_id = item.question?.id;
    const request = { answer, message, ...(question_id !== undefined && { question_id }) };
    await parts.runner().answer(item.job_id, id, request, caller);
  } catch (error) {
    if (!isServiceError(error) || error.status >= 500 || wantsJson(event)) throw error;
    return refused(parts, event, { item, error, problems: {}, typed: form, agent });
  }
  if (negotiate(event, "page") === "fragment") {
    const ask = toAskView(item, { now, agent, done: "Answered. The agent continues." });
    return renderFragment(parts, event, { template: "ask", state: { ask } });
  }
  return redirect("/admin/inbox", [flashCookie(parts, event, "good", `Answered: ${item.name}`)]);
}

function settled(item: StoredCase): ServiceError {
  return new ServiceError("invalid_transition", `Case "${item.id}" now asks another question`, {
    detail: "Reload the page to see it.",
  });
}

function invalidAnswer(problems: Readonly<Record<string, string>>): ServiceError {
  return new ServiceError("invalid_parameters", "The answer is incomplete", {
    detail: describeProblems(problems),
  });
}

interface Refusal {
  readonly item: StoredCase;
  readonly error: ServiceError;
  /** Problems, by field name. */
  readonly problems: Readonly<Record<string, string>>;
  readonly typed: URLSearchParams;
  readonly agent: string;
}

async function refused(parts: AdminParts, event: HttpEvent, refusal: Refusal): Promise<Response> {
  const { item, error, problems, typed, agent } = refusal;
  const isFieldwise = Object.keys(problems).length > 0;
  const ask = toAskView(item, {
    now: parts.clock(),
    agent,
    form: { typed, problems },
    problem: isFieldwise ? undefined : [error.message, error.detail].filter(Boolean).join(". "),
  });
  const state = { ask };
  const answer = { status: error.status };
  if (negotiate(event, "page") === "fragment") {
    // The form shows its problems; a failed request would be noise in the browser's console.
    return renderFragment(parts, event, { template: "ask", state });
  }
  const asks = [await parts.renderer.render("fragments/ask", state)];
  const page = { summary: "", asks, range: "", previous: "", next: "" };
  return renderPage(parts, event, { template: "inbox", state: page }, answer);
}
