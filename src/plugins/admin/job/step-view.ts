import type { AttemptEntry, CallEntry } from "../../../core/models/run-entry.ts";
import { viewPath } from "../files/file-views.ts";
import { withQuery } from "../query.ts";
import { type Call, calledOn, isCutShort, spentOn } from "../views/calls.ts";
import type { FileLink } from "../views/conversation.ts";
import { formatCost, formatDuration, toLabel } from "../views/format.ts";
import { html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { pathTo, statusPiece } from "../views/pieces.ts";
import { aboutCall, conversationOf, renderResult } from "../views/work.ts";

/** What each call is called on pages, unless it says what it does. */
export const KINDS: Readonly<Record<CallEntry["call"], string>> = {
  step: "Step",
  ask: "Question",
  sleep: "Sleep",
  child: "Child",
  event: "Event",
  update: "Update",
  open_case: "Case",
  close: "Close",
  start: "Start",
  stop: "Stop",
  read: "Read",
  tag: "Tags",
};

/**
 * The call that a job's page shows unless another one is selected: what failed, runs, or came last. `failedCase`: a
 * case that failed in a job that completed; its failed call, and none where the handler closed it as failed.
 */
export function firstCall(calls: readonly Call[], failedCase?: string): Call | undefined {
  const shown = calls.filter(isLine);
  if (failedCase !== undefined) {
    return shown.findLast((call) => call.case_id === failedCase && call.entry?.error !== undefined);
  }
  return (
    shown.findLast((call) => call.entry?.error !== undefined) ??
    shown.findLast((call) => !hasEnded(call)) ??
    shown.at(-1)
  );
}

/** Whether the timeline has a line for it. */
export function isLine({ call }: Call): boolean {
  return call === "step" || call === "ask" || call === "sleep" || call === "child" || call === "event";
}

export function hasEnded({ entry, end }: Call): boolean {
  return entry !== undefined || end !== undefined;
}

interface StepContext {
  readonly jobId: string;
  /** Its run, unless that is the last one. */
  readonly run: number | undefined;
  /** Line of the log that ended it. */
  readonly line: number | undefined;
  readonly caseName: string | undefined;
  readonly now: Date;
  readonly currency: string;
}

/** What is known of a call, for the selected one of a job, beside its timeline. */
export function toStepView(call: Call, { jobId, run, line, caseName, now, currency }: StepContext) {
  const { entry } = call;
  const ended = call.end ?? (entry ? Date.parse(entry.at) : (call.cut ?? now.getTime()));
  const link: FileLink = (file) => viewPath(jobId, file);
  const talk = entry && conversationOf(entry, link);
  return {
    href: withQuery(pathTo("jobs", jobId), { run, step: call.id }),
    name: calledOn(call, jobId),
    kind: entry?.kind ? toLabel(entry.kind) : KINDS[call.call],
    status: statusOf(call).toString(),
    about: entry
      ? aboutCall(entry, {
          ...{ currency, attempts: call.attempts },
          ...{ took: ended - call.begun, cost: spentOn(call) },
        })
      : [formatDuration(ended - call.begun), call.answer?.by ? `by ${call.answer.by}` : ""]
          .filter(Boolean)
          .join(" · "),
    caseName: caseName ?? "",
    caseHref: call.case_id === undefined ? "" : pathTo("cases", call.case_id),
    error: entry?.error?.message ?? "",
    stack: entry?.error?.stack ?? "",
    input: talk ? "" : shown(entry?.input),
    output: talk || entry?.error ? "" : outputOf(call, link),
    // Why there is no input or output.
    note: noteOf(call),
    talk: talk ? html`${talk.said}${talk.asked}`.toString() : "",
    attempts: attemptsOf(call, currency),
    forkHref: line === undefined ? "" : withQuery(pathTo("jobs", jobId, "fork"), { line }),
    // Since when it runs, ISO 8601.
    since: hasEnded(call) || call.cut !== undefined ? "" : new Date(call.begun).toISOString(),
  };
}

function statusOf(call: Call) {
  if (call.entry?.error) return statusPiece("failed");
  if (hasEnded(call)) return statusPiece("completed");
  if (call.cut !== undefined) return NOT_FINISHED;
  return openPiece(call.call);
}

/** Of a call that has not ended: only what waits for a person has the color of that. */
export function openPiece(call: CallEntry["call"]) {
  if (call === "sleep") return statusPiece("waiting", "Sleeping");
  return statusPiece(call === "step" ? "in_progress" : call === "ask" ? "awaiting" : "waiting");
}

/** Of a call whose run ended before it did. */
export const NOT_FINISHED = statusPiece("cancelled", "Not finished");

function outputOf({ answer, entry }: Call, link: FileLink): string {
  return answer ? shown(answer.answer) : entry ? renderResult(entry, link) : "";
}

function shown(value: unknown): string {
  return value === undefined || value === null ? "" : renderJson(value);
}

function noteOf(call: Call): string {
  if (!hasEnded(call)) return call.call === "ask" && call.cut === undefined ? "Waits for an answer." : "";
  const { entry } = call;
  if (entry?.error || entry?.kind === "model") return "";
  if (call.call === "step" && entry?.input === undefined)
    return "Its input is not recorded. Pass it as option input of the step to see it here.";
  return "";
}

function attemptsOf(call: Call, currency: string) {
  const { entry, tries } = call;
  if (tries.length === 0) return [];
  const failed = tries.map((one) => {
    const shown = attempt(one, { number: one.attempt, text: one.error, currency });
    return isCutShort(call, one) ? { ...shown, tone: "" } : shown;
  });
  if (!entry) return failed;
  const text = entry.error?.message ?? "";
  const last = attempt(entry, { number: entry.attempts ?? tries.length + 1, text, currency });
  return [...failed, last];
}

function attempt(
  { at, started_at, cost }: Pick<AttemptEntry | CallEntry, "at" | "started_at" | "cost">,
  { number, text, currency }: { number: number; text: string; currency: string },
) {
  return {
    number: `Attempt ${number}`,
    tone: text === "" ? "" : "bad",
    took: started_at === undefined ? "" : formatDuration(Date.parse(at) - Date.parse(started_at)),
    cost: cost ? formatCost(cost, currency) : "",
    text: text || "Succeeded",
  };
}
