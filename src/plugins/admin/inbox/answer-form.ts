import { describeProblems } from "../../../core/agents/fields.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import { uploaderOf } from "../../../core/http/uploads.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { agreement } from "../../../core/models/question.ts";
import { redirect } from "../answer.ts";
import { readShownFiles } from "../files/shown-files.ts";
import { flashCookie } from "../flash.ts";
import { checkAnswer } from "../forms/check-answer.ts";
import { readFields } from "../forms/fields.ts";
import { readFormWithFiles } from "../forms/read-form.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { renderFragment, renderPage } from "../respond.ts";
import { withJobs } from "./alike.ts";
import { toAskView } from "./ask-view.ts";
import { besideQuestion, inboxState, readEvidence } from "./inbox-page.ts";
import { readInbox } from "./read-inbox.ts";

const WAITS = "The answer is stored. The job is held: it waits until somebody decides about the job.";
/** Questions in the list beside a refused answer. */
const LISTED = 50;

/** Answers the question of a case with its form; a refused one is shown with its problems. */
export async function answerByForm(
  parts: SeenParts,
  event: HttpEvent,
  { id, caller }: { id: string; caller: Caller },
): Promise<Response> {
  const form = await readFormWithFiles(event, { files: parts.files, owner: () => uploaderOf(caller) });
  const item = await parts.cases.summary(id);
  const answer = readFields(form, item.question?.fields ?? []);
  const message = form.get("message") || null;
  const job = await parts.jobs.find(item.job_id);
  const verdict = item.question && (await checkAnswer(parts, item, answer));
  if (verdict?.ok === false) {
    if (wantsJson(event)) throw invalidAnswer(verdict.problems);
    return refused(parts, event, {
      item,
      error: invalidAnswer(verdict.problems),
      problems: verdict.problems,
      typed: form,
      job,
    });
  }
  let answered: StoredCase;
  try {
    // A form that was open when the question changed must not answer the new one.
    if (item.question && form.get("question_id") !== item.question.id) throw settled(item);
    const question_id = item.question?.id;
    const request = { answer, message, ...(question_id !== undefined && { question_id }) };
    answered = await parts.runner().answer(item.job_id, id, request, caller);
  } catch (error) {
    if (!isServiceError(error) || error.status >= 500 || wantsJson(event)) throw error;
    return refused(parts, event, { item, error, problems: {}, typed: form, job });
  }
  const isOpen = Boolean(answered.question?.approvals);
  const isJobHeld = await parts.isJobHeld(item.job_id);
  const taken = isJobHeld ? WAITS : "Answered. The agent continues.";
  const done = isOpen ? `Recorded: ${agreement(answered.question!)}.` : taken;
  if (negotiate(event, "page") === "fragment") {
    const { items, total } = await readInbox(parts, { limit: 1, skip: 0 });
    const ask = {
      ...toAskView(item, { now: parts.clock(), caller: parts.caller, job, done }),
      isSettled: !isOpen && !isJobHeld,
      next: items[0] ? withQuery("/admin/inbox", { question: items[0].id }) : "",
      nextLabel: `Next of ${countOf(total, "open question")}`,
    };
    return renderFragment(parts, event, { template: "ask", state: { ask } });
  }
  return redirect("/admin/inbox", [
    flashCookie(parts, event, "good", isOpen || isJobHeld ? done : `Answered: ${item.name}`),
  ]);
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
  readonly job: StoredJob | undefined;
}

async function refused(parts: SeenParts, event: HttpEvent, refusal: Refusal): Promise<Response> {
  const { item, error, problems, typed, job } = refusal;
  const isFieldwise = Object.keys(problems).length > 0;
  const isFragment = negotiate(event, "page") === "fragment";
  // The page of a case has no list beside the question.
  const isInInbox = !isFragment || typed.has("in_list");
  const { links, ...beside } = isInInbox ? await besideRefused(parts, item, job) : {};
  const view = toAskView(item, {
    now: parts.clock(),
    caller: parts.caller,
    job,
    evidence: await readEvidence(parts, item),
    files: await readShownFiles(parts, item),
    form: { typed, problems },
    problem: isFieldwise ? undefined : textOf(error),
  });
  const ask = { ...view, ...beside };
  const answer = { status: error.status };
  if (isFragment) {
    // The form shows its problems; a failed request would be noise in the browser's console.
    return renderFragment(parts, event, { template: "ask", state: { ask, links } });
  }
  const text = await parts.renderer.render("fragments/ask", { ask, links });
  const state = await inboxState(parts, { limit: LISTED, skip: 0, question: item.id }, text);
  return renderPage(parts, event, { template: "inbox", state }, answer);
}

async function besideRefused(parts: SeenParts, item: StoredCase, job: StoredJob | undefined) {
  const { items } = await readInbox(parts, { limit: LISTED, skip: 0 });
  return besideQuestion(parts, { item, job }, await withJobs(parts, items));
}
