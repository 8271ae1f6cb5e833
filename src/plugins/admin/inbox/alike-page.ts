import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import type { Caller } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { uploaderOf } from "../../../core/http/uploads.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { checkAnswer } from "../forms/check-answer.ts";
import { encodingOf, readFields, renderFields } from "../forms/fields.ts";
import { readFormWithFiles } from "../forms/read-form.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { renderFragment, renderPage } from "../respond.ts";
import { countOf } from "../views/format.ts";
import { duePiece, pathTo } from "../views/pieces.ts";
import { MOST_ALIKE, type OpenQuestion, readAlike } from "./alike.ts";
import { isHeld } from "./ask-view.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const PATH = "/admin/cases/{id}/alike";

/** Equal questions answered with one form: exactly those that it lists, and only as long as they ask the same. */
export function alikeRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { path: PATH, hidden: true, params: PathSchema } as const;
  return [
    seenRoute(parts, {
      ...about,
      method: "GET",
      needs: "answer",
      summary: "Form that answers equal questions together",
      responses: { 200: { description: "The page", contentType: "text/html" } },
      handler: async ({ params, event }, seen) => {
        const alike = await readAlike(seen, await seen.cases.summary(params.id));
        if (wantsJson(event)) return { items: alike.map(({ item }) => item.id) };
        if (alike.length === 0) return redirect("/admin/inbox");
        return showForm(seen, event, { alike });
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
  readonly alike: readonly OpenQuestion[];
  readonly typed?: URLSearchParams;
  readonly problems?: Readonly<Record<string, string>>;
  readonly problem?: string;
}

async function showForm(
  parts: SeenParts,
  event: HttpEvent,
  { alike, typed, problems, problem }: FormView,
): Promise<Response> {
  const now = parts.clock();
  const [{ item, job }] = alike as [OpenQuestion, ...OpenQuestion[]];
  const picked = typed && new Set(typed.getAll("pick"));
  const state = {
    form: {
      title: `Answer ${countOf(alike.length, "question")} together`,
      agent: job?.agent_name ?? "",
      action: pathTo("cases", item.id, "alike"),
      problem: problem ?? "",
      encoding: encodingOf(item.question?.fields ?? []),
      fields: renderFields(item.question?.fields ?? [], { id: "alike", typed, problems }).toString(),
      message: typed?.get("message") ?? "",
      items: alike.map((each) => {
        const { item: one } = each;
        const value = `${one.id} ${one.question?.id ?? ""}`;
        const differs = differencesOf(each, alike[0]!);
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
  const first = await parts.cases.summary(id);
  const fields = first.question?.fields ?? [];
  const answer = readFields(typed, fields);
  const picked = typed.getAll("pick").slice(0, MOST_ALIKE);
  const refuse = async (view: Omit<FormView, "alike" | "typed">) => {
    const alike = await readAlike(parts, first);
    if (wantsJson(event) || alike.length === 0)
      throw new ServiceError("invalid_parameters", view.problem ?? "The answer is incomplete");
    return showForm(parts, event, { alike, typed, ...view });
  };
  if (picked.length === 0) return refuse({ problem: "No question is selected." });
  const verdict = await checkAnswer(parts, first, answer);
  if (!verdict.ok) return refuse({ problems: verdict.problems });

  const message = typed.get("message") || null;
  let answered = 0;
  let approved = 0;
  let held = 0;
  const problems = new Set<string>();
  for (const one of picked) {
    const [caseId = "", question_id = ""] = one.split(" ");
    try {
      const { job_id } = await parts.cases.summary(caseId);
      // One that asks something else by now is not answered.
      const item = await parts.runner().answer(job_id, caseId, { answer, message, question_id }, caller);
      if (item.question?.approvals) approved++;
      else answered++;
      if (isHeld(await parts.jobs.find(job_id))) held++;
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
  return redirect("/admin/inbox", [
    flashCookie(parts, event, left > 0 ? "bad" : "good", text.filter(Boolean).join(" ")),
  ]);
}
