import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { uploaderOf } from "../../../core/http/uploads.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { checkAnswer } from "../forms/check-answer.ts";
import { encodingOf, readFields, renderFields } from "../forms/fields.ts";
import { readFormWithFiles } from "../forms/read-form.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { renderFragment, renderPage } from "../respond.ts";
import { formatCount } from "../views/format.ts";
import { duePiece, pathTo } from "../views/pieces.ts";
import { type Alike, MOST_ALIKE, type OpenQuestion, readAlike } from "./alike.ts";
import { isHeld } from "./ask-view.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const QuerySchema = filterQuery({
  /** Case with which the forms before this one began. */
  start: optionalText(EntityIdSchema),
});
const PATH = "/admin/cases/{id}/alike";

/** Equal questions answered with one form: exactly those that it lists, and only as long as they ask the same. */
export function alikeRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { path: PATH, hidden: true, params: PathSchema } as const;
  return [
    seenRoute(parts, {
      ...about,
      method: "GET",
      query: QuerySchema,
      needs: "answer",
      summary: "Form that answers equal questions together",
      responses: { 200: { description: "The page", contentType: "text/html" } },
      handler: async ({ params, query, event }, seen) => {
        const { start } = withoutEmpty(query);
        const alike = await readAlike(seen, await seen.cases.summary(params.id), start);
        const { shown, total, next } = alike;
        if (wantsJson(event)) return { items: shown.map(({ item }) => item.id), total, next: next ?? null };
        if (shown.length === 0) return redirect("/admin/inbox");
        return showForm(seen, event, { alike, start });
      },
    }),
    seenRoute(parts, {
      ...about,
      method: "POST",
      needs: "answer",
      summary: "Answer equal questions together (form)",
      streamsBody: "multipart",
      responses: { 303: { description: "Redirect to the inbox" } },
      handler: ({ params, event, caller }, seen) => answerAll(seen, event, { id: params.id, caller }),
    }),
  ];
}

interface FormView {
  readonly alike: Alike;
  readonly start: string | undefined;
  readonly typed?: URLSearchParams;
  readonly problems?: Readonly<Record<string, string>>;
  readonly problem?: string;
}

async function showForm(
  parts: SeenParts,
  event: HttpEvent,
  { alike, start, typed, problems, problem }: FormView,
): Promise<Response> {
  const now = parts.clock();
  const { shown, next } = alike;
  const [first] = shown as [OpenQuestion, ...OpenQuestion[]];
  const { item, job } = first;
  const origin = start ?? item.id;
  const picked = typed && new Set(typed.getAll("pick"));
  const state = {
    form: {
      title: titleOf(alike, start),
      agent: job?.agent_name ?? "",
      action: pathTo("cases", item.id, "alike"),
      start: start ?? "",
      first: start === undefined ? "" : pathTo("cases", start, "alike"),
      nextId: next ?? "",
      next: next === undefined ? "" : withQuery(pathTo("cases", next, "alike"), { start: origin }),
      problem: problem ?? "",
      encoding: encodingOf(item.question?.fields ?? []),
      fields: renderFields(item.question?.fields ?? [], { id: "alike", typed, problems }).toString(),
      message: typed?.get("message") ?? "",
      items: shown.map((each) => {
        const { item: one } = each;
        const value = `${one.id} ${one.question?.id ?? ""}`;
        const differs = differencesOf(each, first);
        return {
          value,
          picked: picked?.has(value) ?? (differs.length === 0 && isHeld(each.job) === isHeld(job)),
          marks: [...differs, ...(isHeld(each.job) ? ["job held"] : [])].join(", "),
          name: one.name,
          href: pathTo("cases", one.id),
          question: one.question?.question ?? "",
          due: duePiece(one.question?.deadline, now).toString(),
        };
      }),
    },
  };
  const template = { template: "alike", state };
  const answer = { status: typed ? 422 : 200 };
  return negotiate(event, "page") === "fragment"
    ? renderFragment(parts, event, template, answer)
    : renderPage(parts, event, template, answer);
}

/** How many questions the form is for, and of how many. */
function titleOf({ shown, total }: Alike, start: string | undefined): string {
  const which = start === undefined ? "the first" : "the next";
  if (shown.length < total)
    return `Answer ${which} ${formatCount(shown.length)} of ${countOf(total, "question")} together`;
  return `Answer ${start === undefined ? "" : `${which} `}${countOf(total, "question")} together`;
}

/** In what a question differs from the one that the form is for: only those that do not are ticked at first. */
function differencesOf({ item }: OpenQuestion, first: OpenQuestion): string[] {
  const { question } = item;
  const same = first.item.question;
  return [
    question?.question !== same?.question ? "asks something else" : "",
    question?.note !== same?.note ? "other note" : "",
    isDeepStrictEqual(question?.files, same?.files) ? "" : "other files",
    question?.assigned_to !== same?.assigned_to ? `for ${question?.assigned_to ?? "anybody"}` : "",
    question?.approvers !== same?.approvers
      ? `needs ${countOf(question?.approvers ?? 1, "person", "people")}`
      : "",
  ].filter(Boolean);
}

async function answerAll(
  parts: SeenParts,
  event: HttpEvent,
  { id, caller }: { id: string; caller: Caller },
): Promise<Response> {
  const typed = await readFormWithFiles(event, { files: parts.files, owner: () => uploaderOf(caller) });
  const [start, next] = ["start", "next"].map((name) => typed.get(name) || undefined);
  const picked = typed.getAll("pick").map(readPick);
  const first = await findAsked(parts, picked);
  const answer = readFields(typed, first?.question?.fields ?? []);
  const refuse = async (view: Omit<FormView, "alike" | "typed" | "start">) => {
    const alike = await readAlike(parts, first ?? (await parts.cases.summary(id)), start);
    if (wantsJson(event) || alike.shown.length === 0)
      throw new ServiceError("invalid_parameters", view.problem ?? "The answer is incomplete");
    return showForm(parts, event, { alike, start, typed, ...view });
  };
  if (picked.length === 0) return refuse({ problem: "No question is selected." });
  if (picked.length > MOST_ALIKE)
    return refuse({ problem: `At most ${MOST_ALIKE} questions are answered together.` });
  const verdict = first && (await checkAnswer(parts, first, answer));
  if (verdict?.ok === false) return refuse({ problems: verdict.problems });

  const message = typed.get("message") || null;
  let answered = 0;
  let approved = 0;
  let held = 0;
  const problems = new Set<string>();
  for (const { caseId, question_id } of picked) {
    try {
      const { job_id } = await parts.cases.summary(caseId);
      // One that asks something else by now is not answered.
      const item = await parts.runner().answer(job_id, caseId, { answer, message, question_id }, caller);
      if (item.question?.approvals) approved++;
      else answered++;
      if (await parts.isJobHeld(job_id)) held++;
    } catch (error) {
      if (!isServiceError(error) || error.status >= 500) throw error;
      problems.add(error.message);
    }
  }
  const left = picked.length - answered - approved;
  const [why] = problems;
  const text = [
    `${countOf(answered, "question")} answered.`,
    approved > 0 ? `${countOf(approved, "question needs", "questions need")} a further person.` : "",
    held > 0
      ? `${countOf(held, "answer waits", "answers wait")}: the jobs are held until somebody decides.`
      : "",
    left > 0 ? `${countOf(left, "question")} not answered: ${why ?? ""}.` : "",
  ];
  const [following] = await findOpen(parts, next === undefined ? [] : [next]);
  const path = following
    ? withQuery(pathTo("cases", following.id, "alike"), { start: start ?? id })
    : "/admin/inbox";
  return redirect(path, [
    flashCookie(parts, event, left > 0 ? "bad" : "good", text.filter(Boolean).join(" ")),
  ]);
}

interface Pick {
  readonly caseId: string;
  readonly question_id: string;
}

function readPick(value: string): Pick {
  const [caseId = "", question_id = ""] = value.split(" ");
  return { caseId, question_id };
}

/** The first selected question that is still asked. All have its form; that of the case in the path may be answered by now. */
async function findAsked(parts: SeenParts, picked: readonly Pick[]): Promise<StoredCase | undefined> {
  const ids = picked.slice(0, MOST_ALIKE).map(({ caseId }) => caseId);
  const open = new Map((await findOpen(parts, ids)).map((item) => [item.id, item]));
  const asked = picked.find(({ caseId, question_id }) => open.get(caseId)?.question?.id === question_id);
  return asked && open.get(asked.caseId);
}

async function findOpen({ cases }: SeenParts, ids: readonly string[]): Promise<StoredCase[]> {
  if (ids.length === 0) return [];
  return (await cases.list({ where: { id: ids, status: "awaiting" }, limit: ids.length })).items;
}
