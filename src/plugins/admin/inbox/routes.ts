import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { readGivenKey } from "../../../core/http/idempotency-key.ts";
import { pageQuery } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { acceptedText, CaseUpdateRequestSchema } from "../../../core/models/question.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import { AnsweredSchema, InboxEntrySchema, InboxItemSchema, pageOf } from "../answers/entities.ts";
import { toPageOf } from "../lists/page-of.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { alikeRoutes } from "./alike-page.ts";
import { answerByForm } from "./answer-form.ts";
import { assignRoutes } from "./assign-routes.ts";
import { type InboxPage, inboxState } from "./inbox-page.ts";
import { readInbox, toInboxEntry, toInboxItem } from "./read-inbox.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const QuerySchema = filterQuery({
  ...pageQuery({ max: 100, default: 50 }),
  job_id: optionalText(EntityIdSchema),
  assigned_to: optionalText(v.pipe(v.string(), v.maxLength(60))),
  /** Only those that are assigned to the name of the caller. */
  mine: optionalText(v.literal("1")),
  /** Only when each was asked: what an open inbox reads again and again. */
  brief: optionalText(v.literal("1")),
  /** Case whose question is shown beside the list. */
  question: optionalText(EntityIdSchema),
});
type Query = v.InferOutput<typeof QuerySchema>;

/** The inbox, and answering from it. */
export function inboxRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/inbox", "Inbox page"],
      api: [
        "/admin/api/inbox",
        "List open questions",
        "Questions of all jobs that the caller may answer, oldest first.",
      ],
      query: QuerySchema,
      answer: "Open questions, the most urgent first",
      schema: pageOf(v.union([InboxItemSchema, InboxEntrySchema])),
      seen: ({ query, caller }, seen) => inboxResource(seen, toFilter(query, caller)),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/cases/{id}/answer",
      needs: "answer",
      summary: "Answer a case's question",
      description:
        "The first answer wins; a later one is refused with 409. A question that needs several people stays open until so many have given the same answer. With an `Idempotency-Key` header, repeating the request answers nothing, also where the case asks something else by then.",
      params: PathSchema,
      body: CaseUpdateRequestSchema,
      responses: { 200: { description: "The answer was accepted", schema: AnsweredSchema } },
      handler: async ({ params, body, caller, event }, seen) => {
        const { job_id } = await seen.cases.summary(params.id);
        const once = readGivenKey(event, params.id, body.answer, body.message ?? null);
        const request = { ...body, ...(once && { once }) };
        const item = await seen.runner().answer(job_id, params.id, request, caller);
        return { message: acceptedText(item), id: item.id, status: item.status };
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/cases/{id}/answer",
      needs: "answer",
      summary: "Answer a question with its form",
      hidden: true,
      params: PathSchema,
      streamsBody: "multipart",
      responses: { 303: { description: "Redirect to the inbox" } },
      handler: ({ params, event, caller }, seen) => answerByForm(seen, event, { id: params.id, caller }),
    }),
    ...assignRoutes(parts),
    ...alikeRoutes(parts),
  ];
}

/** The query with the name of the caller in place of `mine`. */
function toFilter(given: Query, caller: Caller): InboxPage {
  const { mine, ...query } = withoutEmpty(given);
  const name = caller.name ?? (caller.says || undefined);
  if (mine === undefined) return { ...query, name };
  if (name !== undefined) return { ...query, name, assigned_to: name };
  throw new ServiceError("invalid_request", "You have no name here, so no question is yours", {
    detail: "Sign in with your name, or filter by assigned_to.",
  });
}

function inboxResource(parts: SeenParts, query: InboxPage): Resource {
  return {
    page: "inbox",
    fragment: "inbox",
    json: async () => {
      const { items, total } = await readInbox(parts, query);
      const toItem = query.brief ? toInboxEntry : toInboxItem;
      return toPageOf(items.map<object>(toItem), { total, limit: query.limit, skip: query.skip });
    },
    state: () => inboxState(parts, query),
  };
}
