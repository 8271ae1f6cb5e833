import * as v from "valibot";
import { type Caller, nameOf } from "../../../core/audit/caller.ts";
import { isDuration, toMilliseconds } from "../../../core/base/duration.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { type GivenKey, isRepeated } from "../../../core/entities/keyed-requests.ts";
import { readGivenKey } from "../../../core/http/idempotency-key.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import type { AskingCase } from "../../../core/runs/questions/open-questions.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { isMarked } from "../forms/marks.ts";
import { readForm } from "../forms/read-form.ts";
import { negotiate } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { renderFragment, renderPage } from "../respond.ts";
import type { AnswerLink } from "./answer-link-table.ts";
import { isAsking } from "./answer-links.ts";
import { linksView } from "./links-view.ts";

const DAYS = 24 * 3_600_000;
const LONGEST = 90 * DAYS;
const PathSchema = v.object({ id: EntityIdSchema });
const LinkPathSchema = v.object({ id: EntityIdSchema, link: v.pipe(v.string(), v.maxLength(100)) });
const name = v.pipe(v.string(), v.transform(toLine), v.minLength(1, "must name the person"), v.maxLength(60));
/** For whom, and how long it works. */
const NewLinkSchema = v.object({
  name,
  expires_in: v.optional(
    v.pipe(
      v.string(),
      v.check(
        (text) => isDuration(text) && toMilliseconds(text) > 0 && toMilliseconds(text) <= LONGEST,
        "must be a duration up to 90d, such as 3d",
      ),
    ),
    "7d",
  ),
  /** Whether its page shows what the steps of the case found. */
  evidence: v.optional(v.boolean(), false),
});
type NewLink = v.InferOutput<typeof NewLinkSchema>;

const LinkSchema = v.object({
  id: v.string(),
  name: v.string(),
  by: v.string(),
  case_id: EntityIdSchema,
  question_id: v.string(),
  created_at: v.string(),
  expires_at: v.string(),
});
const CreatedSchema = v.object({ ...LinkSchema.entries, path: v.string(), url: v.nullable(v.string()) });

/** Makes, lists and revokes links with which one person answers one question: in the API, and by form. */
export function answerLinkRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { params: PathSchema } as const;
  return [
    adminRoute({
      ...about,
      method: "POST",
      path: "/admin/api/cases/{id}/links",
      needs: "operate",
      summary: "Create a link with which one person answers the open question without a key",
      description:
        "It works until the question is answered or its time is over, at most for `expires_in` (default 7d). `path` holds a secret and is returned only here; `url` is the same with the service's public address, if that is known. The answer is recorded under `name`. With `evidence`, its page shows the last results of the case's steps. With an `Idempotency-Key` header, repeating the request is refused with 409 and creates no other link.",
      body: NewLinkSchema,
      status: 201,
      responses: { 201: { description: "The link", schema: CreatedSchema } },
      handler: async ({ params, body, caller, event }) => {
        const once = readGivenKey(event, "link", params.id, body);
        const { link, path } = await createLink(parts, params.id, { ...body, once }, caller);
        return { ...toLink(link), path, url: publicUrl(parts, path) };
      },
    }),
    adminRoute({
      ...about,
      method: "GET",
      path: "/admin/api/cases/{id}/links",
      needs: "operate",
      summary: "List the links that can answer the open question of a case",
      description: "Who made each link, and until when it is valid; never its secret.",
      responses: {
        200: {
          description: "Links, without their secrets",
          schema: v.object({ items: v.array(LinkSchema) }),
        },
      },
      handler: async ({ params }) => {
        const item = await parts.cases.summary(params.id);
        return { items: isAsking(item) ? (await parts.answerLinks.of(item)).map(toLink) : [] };
      },
    }),
    adminRoute({
      ...about,
      method: "DELETE",
      path: "/admin/api/cases/{id}/links/{link}",
      needs: "operate",
      summary: "Revoke a link",
      description: "The link answers nothing from now on.",
      params: LinkPathSchema,
      responses: { 200: { description: "Done", schema: v.object({ message: v.string() }) } },
      handler: async ({ params, caller }) => {
        await revokeLink(parts, params, caller);
        return { message: "The link was revoked" };
      },
    }),
    adminRoute({
      ...about,
      method: "POST",
      path: "/admin/cases/{id}/links",
      needs: "operate",
      summary: "Create a link with which one person answers (form)",
      hidden: true,
      responses: { 200: { description: "The link" } },
      handler: ({ params, event, caller }) => createByForm(parts, event, { id: params.id, caller }),
    }),
    adminRoute({
      ...about,
      method: "POST",
      path: "/admin/cases/{id}/links/{link}/revoke",
      needs: "operate",
      summary: "Revoke a link (form)",
      hidden: true,
      params: LinkPathSchema,
      responses: { 303: { description: "Redirect to the question" } },
      handler: async ({ params, event, caller }) => {
        await revokeLink(parts, params, caller);
        const back = withQuery("/admin/inbox", { question: params.id });
        return redirect(back, [flashCookie(parts, event, "good", "The link was revoked.")]);
      },
    }),
  ];
}

async function createByForm(
  parts: AdminParts,
  event: HttpEvent,
  { id, caller }: { id: string; caller: Caller },
): Promise<Response> {
  const form = await readForm(event);
  const given = { ...Object.fromEntries(form), evidence: isMarked(form, "evidence") };
  const parsed = v.safeParse(NewLinkSchema, given);
  const item = await askingCase(parts, id);
  const made = parsed.success ? await createLink(parts, id, parsed.output, caller) : undefined;
  const view = await linksView(parts, item, {
    problem: parsed.success
      ? ""
      : `The ${parsed.issues[0].path?.[0]?.key === "name" ? "name" : "time"} ${parsed.issues[0].message}.`,
    ...(made && {
      created: { name: made.link.name, url: publicUrl(parts, made.path) ?? event.url.origin + made.path },
    }),
  });
  const template = { template: "answer-links", state: { links: view } };
  const answer = { status: parsed.success ? 200 : 422 };
  return negotiate(event, "page") === "fragment"
    ? renderFragment(parts, event, template, answer)
    : renderPage(parts, event, template, answer);
}

async function createLink(
  parts: AdminParts,
  caseId: string,
  given: NewLink & { readonly once?: GivenKey | undefined },
  caller: Caller,
) {
  const item = await askingCase(parts, caseId);
  const lasts = toMilliseconds(given.expires_in as "7d");
  const person = await findPerson(parts, given.name);
  const about = {
    ...{ name: given.name, by: nameOf(caller), lasts, evidence: given.evidence },
    ...(person && { person: { id: person.id, issuer: person.issuer }, name: person.name }),
    ...(caller.proven !== undefined && caller.access !== undefined && { maker: caller.access }),
  };
  const { link, token } = await parts.answerLinks.make(item, about);
  const line = {
    by: caller,
    action: "case.link",
    target: { kind: "case", id: caseId },
    after: { for: given.name, lasts: given.expires_in, ...(given.evidence && { evidence: true }) },
  } as const;
  await parts.audit.record(line, async (unit) => {
    if (await isRepeated(unit, item.job_id, given.once)) throw alreadyCreated(caseId);
    await unit.tx.insert("AnswerLink", link);
  });
  return { link, path: withQuery("/answer", { token }) };
}

/** Somebody who has signed in, by the address or the id: nobody, where several have it. */
async function findPerson({ people, service }: AdminParts, name: string) {
  if (service.access.signIn === undefined) return undefined;
  const found = (await people.list()).filter(
    (one) => one.id === name || one.name.toLowerCase() === name.toLowerCase(),
  );
  if (found.length !== 1) return undefined;
  const [{ id, issuer, name: known }] = found as [(typeof found)[number]];
  people.assertIn(id);
  return { id, issuer, name: known };
}

async function revokeLink(
  parts: AdminParts,
  { id, link }: { id: string; link: string },
  by: Caller,
): Promise<void> {
  const line = { by, action: "case.link_revoke", target: { kind: "case", id } } as const;
  await parts.audit.record(line, async ({ tx }) => {
    if (await parts.answerLinks.revoke(tx, id, link)) return;
    throw new ServiceError("not_found", `Case "${id}" has no such link`, {
      detail: "It was revoked, or it has expired.",
    });
  });
}

/** Its secret is not stored: who asks again cannot get it. */
function alreadyCreated(caseId: string): ServiceError {
  const message = `A link of case "${caseId}" was already created with this key; only that response had its secret`;
  return new ServiceError("invalid_request", message, {
    status: 409,
    detail: "If it was lost, revoke that link, and create one with a new key.",
  });
}

async function askingCase(parts: AdminParts, id: string): Promise<AskingCase> {
  const item = await parts.cases.summary(id);
  if (isAsking(item)) return item;
  throw new ServiceError("invalid_transition", `Case "${id}" asks no question`, {
    detail: `Its status is "${item.status}".`,
  });
}

function publicUrl({ state }: AdminParts, path: string): string | null {
  return state.publicUrl === undefined ? null : state.publicUrl.replace(/\/+$/, "") + path;
}

function toLink({ id, name, by, case_id, question_id, created, until }: AnswerLink) {
  return {
    ...{ id, name, by, case_id, question_id },
    created_at: new Date(created).toISOString(),
    expires_at: new Date(until).toISOString(),
  };
}

/** A name that can be shown in a line of a history. */
function toLine(text: string): string {
  return text.replace(/\p{C}/gu, "").trim();
}
