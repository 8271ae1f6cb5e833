import { countOf } from "../../../core/base/count-of.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { FileValue } from "../../../core/models/file.ts";
import type { CallEntry, RunEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { AttemptCounter } from "./attempts.ts";
import {
  type FileLink,
  readAnswer,
  readMessages,
  readTools,
  renderAnswer,
  renderMessages,
} from "./conversation.ts";
import { formatBytes, formatCost, formatCount, formatDuration } from "./format.ts";
import { type Html, html } from "./html.ts";
import { renderJson } from "./json-tree.ts";
import { timePiece, trusted } from "./pieces.ts";

/** Calls that a page shows, the newest first. */
const SHOWN = 20;

/** A call of a model or a tool, as a page shows it. */
export interface WorkLine {
  readonly kind: string;
  readonly name: string;
  /** Its case on the page of a job, its model, tokens, cost and time. */
  readonly about: string;
  readonly tone: "" | "bad";
  readonly time: string;
  readonly body: string;
}

export interface WorkView {
  readonly lines: readonly WorkLine[];
  readonly count: string;
  readonly summary: string;
  readonly note: string;
}

/** The calls of models and tools in a job's log, or of one of its cases. */
export function toWork(
  entries: readonly LogEntry<RunEntry>[],
  {
    now,
    currency,
    caseId,
    cases = [],
    link,
  }: {
    readonly now: Date;
    readonly currency: string;
    readonly caseId?: string;
    readonly cases?: readonly Pick<StoredCase, "id" | "name">[];
    readonly link: FileLink;
  },
): WorkView | undefined {
  const calls: { readonly entry: CallEntry; readonly attempts: number }[] = [];
  const counter = new AttemptCounter();
  // Where the case is not among those of the page, the id that the agent gave it.
  const names = new Map<string, string>();
  let [input, output, cost] = [0, 0, 0];
  for (const { entry } of entries) {
    const attempts = counter.add(entry);
    if (entry.type === "call" && entry.call === "open_case") names.set(String(entry.result), entry.name);
    if ((entry.type !== "call" && entry.type !== "attempt") || entry.kind === undefined) continue;
    if (caseId !== undefined && entry.case_id !== caseId) continue;
    input += entry.model?.input_tokens ?? 0;
    output += entry.model?.output_tokens ?? 0;
    cost += entry.cost ?? 0;
    if (entry.type === "call") calls.push({ entry, attempts });
  }
  if (calls.length === 0) return undefined;
  for (const { id, name } of cases) names.set(id, name);
  const left = calls.length - SHOWN;
  return {
    lines: calls
      .slice(-SHOWN)
      .map(({ entry, attempts }) => {
        const { case_id } = entry;
        const caseName = case_id === undefined || case_id === caseId ? "" : (names.get(case_id) ?? case_id);
        return toLine(entry, { now, currency, link, caseName, attempts });
      })
      .reverse(),
    count: formatCount(calls.length),
    summary: [tokens(input, output), cost > 0 ? formatCost(cost, currency) : ""].filter(Boolean).join(", "),
    note: left > 0 ? `${countOf(left, "earlier call")} are in the job's log.` : "",
  };
}

/** How many calls of models and tools a log has. */
export function countWork(entries: readonly LogEntry<RunEntry>[]): number {
  return entries.filter(({ entry }) => entry.type === "call" && entry.kind !== undefined).length;
}

function toLine(
  entry: CallEntry,
  {
    now,
    currency,
    link,
    caseName,
    attempts,
  }: {
    readonly now: Date;
    readonly currency: string;
    readonly link: FileLink;
    readonly caseName: string;
    readonly attempts: number;
  },
): WorkLine {
  const took = Date.parse(entry.at) - Date.parse(entry.started_at ?? entry.at);
  return {
    kind: entry.kind ?? "",
    name: entry.name,
    about: [caseName, aboutCall(entry, { currency, took, attempts, cost: entry.cost ?? 0 })]
      .filter(Boolean)
      .join(" · "),
    tone: entry.error ? "bad" : "",
    time: timePiece(entry.at, now).toString(),
    body: bodyOf(entry, link).toString(),
  };
}

/** The model of a call, its tokens, attempts in its run, time (milliseconds) and cost, in one line. */
export function aboutCall(
  entry: CallEntry,
  {
    currency,
    took,
    cost,
    attempts,
  }: {
    readonly currency: string;
    readonly took: number;
    readonly cost: number;
    readonly attempts: number;
  },
): string {
  const { model = {} } = entry;
  const { first_token_ms } = model;
  const about = [
    model.name ?? model.requested ?? "",
    tokens(model.input_tokens, model.output_tokens),
    model.cached_tokens ? `${formatCount(model.cached_tokens)} cached` : "",
    model.reasoning_tokens ? `${formatCount(model.reasoning_tokens)} reasoning` : "",
    model.finish_reason ?? "",
    attempts > 1 || entry.error ? countOf(attempts, "attempt") : "",
    first_token_ms === undefined ? "" : `first token after ${formatDuration(first_token_ms)}`,
    formatDuration(took),
    cost > 0 ? formatCost(cost, currency) : "",
  ];
  return about.filter(Boolean).join(" · ");
}

function tokens(input: number | undefined, output: number | undefined): string {
  if (!input && !output) return "";
  return `${countOf(input ?? 0, "token")} in, ${formatCount(output ?? 0)} out`;
}

/** The conversation of a call of a model; nothing of other calls. */
export function conversationOf(
  entry: CallEntry,
  link: FileLink,
): { readonly asked: Html; readonly said: Html } | undefined {
  if (entry.kind !== "model") return undefined;
  const messages = readMessages(entry.input);
  const answer = readAnswer(entry.result);
  const tools = readTools(entry.input);
  const offered = tools.length > 0 ? html`<p class="soft">Tools: ${tools.join(", ")}</p>` : html``;
  const asked = messages ? renderMessages(messages, link) : part("Request", entry.input);
  const said = answer ? renderAnswer(answer, link) : resultPart("Answer", entry, link);
  return {
    asked: html`<h3>Asked</h3>${asked}${offered}`,
    said: entry.error ? html`` : html`<h3>Answer</h3>${said}`,
  };
}

function bodyOf(entry: CallEntry, link: FileLink): Html {
  const error = entry.error ? html`<p class="bad">${entry.error.message}</p>` : "";
  const talk = conversationOf(entry, link);
  if (talk) return html`${error}${talk.said}${talk.asked}`;
  return html`${part("Input", entry.input)}${error}${entry.error ? "" : resultPart("Output", entry, link)}`;
}

function part(title: string, value: unknown): Html {
  if (value === undefined || value === null) return html``;
  return html`<div class="say"><b>${title}</b><div>${trusted(renderJson(value))}</div></div>`;
}

function resultPart(title: string, entry: CallEntry, link: FileLink): Html {
  const shown = renderResult(entry, link);
  return shown === "" ? html`` : html`<div class="say"><b>${title}</b><div>${trusted(shown)}</div></div>`;
}

/** The result of a call, as HTML: of one that is stored apart, a link to it; empty where there is none. */
export function renderResult({ result, by_reference }: CallEntry, link: FileLink): string {
  if (result === undefined || result === null) return "";
  if (!by_reference) return renderJson(result);
  const file = result as FileValue;
  return html`<a href="${link(file)}">${file.name}</a>, ${formatBytes(file.size)}`.toString();
}
