import { createHash } from "node:crypto";
import * as v from "valibot";
import { describeProblems } from "../../../core/agents/fields.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import { Attempts } from "../../../core/http/attempts.ts";
import { fileResponse } from "../../../core/http/file-response.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import type { CaseNodeUpdate } from "../../../core/models/case-node-update.ts";
import { isFileValue, Sha256Schema } from "../../../core/models/file.ts";
import { agreement } from "../../../core/models/question.ts";
import type { AskingCase } from "../../../core/runs/questions/open-questions.ts";
import { htmlAnswer } from "../answer.ts";
import { nameOf } from "../files/file-routes.ts";
import { findShownFiles, readShownFiles } from "../files/shown-files.ts";
import { checkAnswer } from "../forms/check-answer.ts";
import { encodingOf, readFields, renderFields } from "../forms/fields.ts";
import { readFormWithFiles } from "../forms/read-form.ts";
import { isEvidence, timeoutNote } from "../inbox/ask-view.ts";
import { wantsJson } from "../negotiate.ts";
import type { AdminParts } from "../parts.ts";
import { optionalText, withQuery } from "../query.ts";
import { readAnswer } from "../views/conversation.ts";
import { formatBytes } from "../views/format.ts";
import type { AnswerLink } from "./answer-link-table.ts";

const token = optionalText(v.pipe(v.string(), v.maxLength(100)));

/** Links that are not valid which an address may open in one window before it is asked to wait. */
const ALLOWED = 10;
const WINDOW = 60_000;

/** The page of a link, on which one person answers one question. It is outside `/admin`, which may be private. */
export function answerPageRoutes(parts: AdminParts): RouteDefinition[] {
  const misses = new Attempts(parts.clock, WINDOW);
  const page = { path: "/answer", auth: "none", tag: "Admin", hidden: true } as const;
  return [
    defineRoute({
      ...page,
      method: "GET",
      needs: "nothing",
      summary: "The page of a link that answers one question",
      // Mail programs and link trackers add parameters.
      query: v.looseObject({ token }),
      responses: { 200: { description: "The question with its form" } },
      // Mail scanners and previews open links: only the button answers.
      handler: ({ query, event }) =>
        orPage(parts, event, async () => {
          const text = query.token ?? "";
          const { link, item } = await open(parts, misses, event, text);
          return showQuestion(parts, event, { link, item, token: text });
        }),
    }),
    defineRoute({
      ...page,
      method: "GET",
      path: "/answer/files/{sha256}",
      needs: "nothing",
      summary: "A file that the page of a link shows",
      params: v.object({ sha256: Sha256Schema }),
      query: v.object({
        token,
        name: optionalText(v.pipe(v.string(), v.maxLength(500))),
        inline: v.optional(v.literal("true")),
      }),
      responses: { 200: { description: "The content" } },
      handler: ({ params, query, event }) =>
        orPage(parts, event, async () => {
          const { link, item } = await open(parts, misses, event, query.token ?? "");
          const shown = await shownBy(parts, link, item);
          const named = shown.filter(({ sha256 }) => sha256 === params.sha256);
          if (named.length === 0) throw new ServiceError("not_found", "This question shows no such file");
          const { content } = await parts.files.ofJob(item.job_id, params.sha256);
          const sent = {
            content,
            named: nameOf(named, query.name),
            isInline: query.inline === "true",
            isFramed: true,
          };
          return fileResponse(event.req, sent, (range) => parts.files.read(content, range));
        }),
    }),
    defineRoute({
      ...page,
      method: "POST",
      needs: "nothing",
      streamsBody: "multipart",
      summary: "Answer one question with a link",
      responses: { 200: { description: "The answer was recorded" } },
      handler: ({ event }) => orPage(parts, event, () => answer(parts, misses, event)),
    }),
  ];
}

async function answer(parts: AdminParts, misses: Attempts, event: HttpEvent): Promise<Response> {
  let opened: Opened | undefined;
  // Only who has a link sends files: its token comes first in the form.
  const openBy = async (form: URLSearchParams) => {
    opened ??= await open(parts, misses, event, form.get("token") ?? "");
    return opened;
  };
  const typed = await readFormWithFiles(event, {
    files: parts.files,
    owner: async ({ before }) => ownerOf((await openBy(before)).link),
  });
  const text = typed.get("token") ?? "";
  const { link, item } = await openBy(typed);
  const { fields, id: question_id, asked_at } = item.question;
  const given = readFields(typed, fields);
  const uploader = ownerOf(link);
  const verdict = await checkAnswer(parts, item, given, uploader);
  const view = { link, item, token: text, typed };
  if (!verdict.ok) {
    if (wantsJson(event))
      throw new ServiceError("invalid_parameters", "The answer is incomplete", {
        detail: describeProblems(verdict.problems),
      });
    return showQuestion(parts, event, { ...view, problems: verdict.problems });
  }
  const message = (typed.get("message") ?? "").slice(0, 2000) || null;
  const by = toCaller(link, parts.clients.address(event));
  let recorded = "Your answer was recorded.";
  try {
    const request = { answer: given, message, question_id, asked_at, uploader };
    const { question } = await parts.runner().answer(item.job_id, item.id, request, by);
    if (question?.approvals) recorded = `Your answer was recorded. ${agreement(question)}.`;
  } catch (error) {
    if (!isServiceError(error) || error.type !== "invalid_parameters" || wantsJson(event)) throw error;
    return showQuestion(parts, event, { ...view, problem: error.detail ?? error.message });
  }
  await parts.answerLinks.used(link);
  return show(parts, event, {
    state: { title: `Thank you, ${link.name}`, tone: "good", text: recorded },
  });
}

interface Opened {
  readonly link: AnswerLink;
  readonly item: AskingCase;
}

/** Whose the uploads of a link are. */
function ownerOf({ id }: AnswerLink): string {
  return `link.${id}`;
}

/** The files that a link shows: those that the question names, and with evidence those of its case. */
async function shownBy(parts: AdminParts, link: AnswerLink, item: AskingCase) {
  return item.question.files || link.evidence ? findShownFiles(parts, item) : [];
}

/**
 * The open question of a token; throws where there is none. A token has 192 bits, which nobody guesses: wrong ones are
 * limited so that a program which sends them stops, and never make somebody wait who has a right one.
 */
async function open(parts: AdminParts, misses: Attempts, event: HttpEvent, text: string): Promise<Opened> {
  const link = text === "" ? undefined : await parts.answerLinks.find(text);
  if (!link) {
    const { failed, until } = misses.fail(parts.clients.address(event));
    if (failed > ALLOWED) throw tooMany(misses.secondsTo(until));
    throw new ServiceError("not_found", "This link is not valid", {
      detail: "It has expired, was revoked, or was not copied completely. Ask for another one.",
    });
  }
  if (link.person) parts.people.assertIn(link.person.id);
  const item = await parts.answerLinks.asking(link);
  if (item) return { link, item };
  throw new ServiceError("invalid_transition", "This question is no longer open", {
    detail: link.used
      ? `You answered it, ${link.name}. Thank you.`
      : "It was answered, or its time is over. There is nothing more to do.",
  });
}

/**
 * Who answers with a link. One whom an identity provider vouches for has made it for a person who has signed in: the
 * answer counts as that person's. Who holds a key could be anybody, and so could be who answers by their links.
 */
function toCaller({ name, person, maker }: AnswerLink, address: string): Caller {
  const who = { kind: "link", name, address, ...(person && { access: person.id }) } as const;
  return person && maker !== undefined ? { ...who, proven: person.issuer, voucher: maker } : who;
}

function tooMany(seconds: number): ServiceError {
  return new ServiceError("rate_limited", "Too many links that are not valid", {
    detail: `Try again in ${seconds} s.`,
    headers: { "retry-after": String(seconds) },
  });
}

interface QuestionView {
  readonly link: AnswerLink;
  readonly item: AskingCase;
  readonly token: string;
  readonly typed?: URLSearchParams;
  readonly problems?: Readonly<Record<string, string>>;
  readonly problem?: string;
}

async function showQuestion(
  parts: AdminParts,
  event: HttpEvent,
  { link, item, token, typed, problems, problem }: QuestionView,
): Promise<Response> {
  const { question } = item;
  const job = await parts.jobs.find(item.job_id);
  const ask = {
    ...{ token, name: link.name, agent: job?.agent_name ?? "An agent", caseName: item.name },
    question: question.question,
    note: question.note ?? "",
    problem: problem ?? "",
    message: typed?.get("message") ?? "",
    fields: renderFields(question.fields, { id: "a", typed, problems }).toString(),
    encoding: encodingOf(question.fields),
    files: await readShownFiles(parts, item, {
      shown: await shownBy(parts, link, item),
      hrefOf: ({ sha256, name }, isInline) =>
        withQuery(`/answer/files/${sha256}`, { token, name, ...(isInline && { inline: "true" }) }),
    }),
    timeoutNote: timeoutNote(question, parts.clock()).toString(),
    evidence: link.evidence ? toFound(await parts.cases.updates(item.id, READ)) : [],
  };
  return show(parts, event, {
    status: typed ? 422 : 200,
    state: { title: question.question.slice(0, 100), ask },
  });
}

/** Updates that are read, results that are shown, the newest first, and characters of each: the page stays small. */
const READ = 50;
const SHOWN = 5;
const LONGEST = 600;

/** What the steps of a case found, as text. */
function toFound(updates: readonly CaseNodeUpdate[]) {
  const found = updates.filter(isEvidence).slice(-SHOWN).reverse();
  return found.map(({ name, payload, error }) => {
    const text = error ?? textOf(payload);
    return {
      name: (name ?? "Update").slice(0, 100),
      text: cut(text),
    };
  });
}

/** A result as a person reads it who knows no JSON: what a model said, or the name of a file. */
function textOf(payload: object): string {
  if (isFileValue(payload)) return `${payload.name} (${formatBytes(payload.size)})`;
  const said = "usage" in payload ? readAnswer(payload)?.parts : undefined;
  const texts = said?.flatMap((part) => (part.kind === "text" ? [part.text] : []));
  if (texts && texts.length > 0 && texts.length === said?.length) return texts.join("\n");
  return JSON.stringify(payload, null, 1).replace(/^\{\n|\n\}$/g, "");
}

interface PageView {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly state: Readonly<Record<string, unknown>>;
}

/** The whole page: it requests nothing else but the files that it shows. */
async function show(
  parts: AdminParts,
  event: HttpEvent,
  { status, headers, state }: PageView,
): Promise<Response> {
  const css = parts.assets.text("answer");
  const style = createHash("sha256").update(css).digest("base64");
  const page = { service: parts.options.title, css, ask: undefined, tone: "", text: "", ...state };
  return htmlAnswer(event, await parts.renderer.render("pages/answer", page), {
    status,
    headers: {
      ...headers,
      "content-security-policy": `default-src 'none'; style-src 'sha256-${style}'; img-src 'self'; media-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
      "referrer-policy": "no-referrer",
    },
  });
}

/** People are shown what is wrong; programs get the error. */
async function orPage(parts: AdminParts, event: HttpEvent, work: () => Promise<Response>): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (!isServiceError(error) || wantsJson(event)) throw error;
    const { status, headers, message, detail = "" } = error;
    return show(parts, event, { status, headers, state: { title: message, tone: "", text: detail } });
  }
}

/** The first characters of a long text; a pair of code units stays together. */
function cut(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
}
