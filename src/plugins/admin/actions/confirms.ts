import { randomUUID } from "node:crypto";
import { countOf } from "../../../core/base/count-of.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { EntityStatusSchema, isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { RunEntry } from "../../../core/models/run-entry.ts";
import { END, type NamedCall, START } from "../../../core/runs/fork/call-names.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { textOfUndo } from "../deleted/deletion-text.ts";
import type { CommonParts } from "../parts.ts";
import { calledOn } from "../views/calls.ts";
import { formatCost, toLabel } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { labelOf, pathTo, setLabelOf } from "../views/pieces.ts";

/** A confirmation before a change: what will happen, and a way to cancel. */
export interface Confirm {
  readonly title: string;
  /** What it is about, as HTML; empty where the title or the lines name it. */
  readonly subject: string;
  readonly lines: readonly string[];
  /** Inputs, as HTML. */
  readonly fields: string;
  readonly action: string;
  readonly back: string;
  readonly buttons: readonly {
    readonly label: string;
    readonly name: string;
    readonly value: string;
    readonly style: string;
    readonly focus: boolean;
  }[];
}

/** Confirmations of changes to a job. */
export function jobConfirms(parts: CommonParts, job: StoredJob, action: string): Confirm {
  const running = !isTerminal(job.status) && job.status !== "stopped";
  const base = { ...onJob(job, action), fields: "" };
  if (action === "stop") {
    const lines = [
      `It will be asked to stop. Its results so far are kept; it may take a moment to clean up.`,
      ...(job.open_questions > 0
        ? [`${countOf(job.open_questions, "open question")} will be withdrawn.`]
        : []),
    ];
    return {
      ...base,
      title: "Stop this job?",
      lines,
      buttons: [button("Stop the job", { style: "danger" })],
    };
  }
  if (action === "retry") {
    const lines = [
      "From the last successful step: finished steps keep their results and cost, and work continues where it failed.",
      "From the start: everything is done, and paid for, again.",
    ];
    const buttons = [
      button("From the start", { name: "from", value: "start", isMain: false }),
      button("From the last successful step", { name: "from", value: "last_step", focus: true }),
    ];
    return { ...base, title: "Retry this job?", lines, buttons };
  }
  if (action === "continue") {
    const lines = [
      job.held?.message ?? "The job is not held.",
      "It resumes with the current code. Recorded calls that this code does not make no longer count, and their work may be done again. Answers still count.",
    ];
    return { ...base, title: "Continue with the current code?", lines, buttons: [button("Continue", {})] };
  }
  if (action === "restart") {
    const lines = ["Everything is done, and paid for, again. What was recorded no longer counts."];
    return { ...base, title: "Restart this job?", lines, buttons: [button("Restart", { style: "danger" })] };
  }
  if (action === "resume") {
    const limits = job.job_context.job_instructions;
    const fields = html`${[
      limitField("max_cost", "Maximum cost", limits?.max_cost),
      limitField("max_duration", "Maximum duration, seconds", limits?.max_duration),
      limitField("max_cases", "Maximum cases", limits?.max_cases),
    ]}`;
    const lines = [
      `It has cost ${formatCost(job.total_cost, parts.options.currency)} and opened ${countOf(job.case_count, "case")}. Finished steps are not repeated.`,
    ];
    return {
      ...base,
      title: "Raise the limits and resume?",
      lines,
      fields: fields.toString(),
      buttons: [button("Resume", {})],
    };
  }
  if (action === "status")
    return {
      ...base,
      ...statusConfirm(job.parked || job.status !== "stopped" ? job.status : "", setLabelOf, "job"),
    };
  const lines = [
    `It will be deleted with ${job.case_count > 0 ? `${countOf(job.case_count, "case")} and ` : ""}its history. ${textOfUndo(parts)}`,
    ...(running ? ["It is running: the run will be cancelled first."] : []),
  ];
  return {
    ...base,
    title: "Delete this job?",
    lines,
    buttons: [button("Delete the job", { style: "danger" })],
  };
}

/** The confirmation before the tokens of a job are revoked. */
export function revokeConfirm(job: StoredJob): Confirm {
  return {
    ...onJob(job, "revoke-tokens"),
    title: "Revoke the tokens of this job?",
    lines: [
      "Pages that use this job with a token are refused from now on, on every instance within seconds. Tokens that are made later work.",
    ],
    fields: "",
    buttons: [button("Revoke the tokens", { style: "danger" })],
  };
}

/** Most calls that a job can be forked from by the form; the command line takes any. */
const SHOWN_CALLS = 1000;

/** What a form that forks a job needs to know of it. */
interface Recorded {
  readonly calls: readonly NamedCall[];
  readonly log: readonly LogEntry<RunEntry>[];
  readonly cases: readonly Pick<StoredCase, "id" | "name">[];
}

/**
 * The form that forks a job: from which call, and with which fields. `line` is the line of the log that ended the call
 * to select.
 */
export function forkConfirm(job: StoredJob, { calls, log, cases }: Recorded, line: number): Confirm {
  const entries = new Map(log.map(({ seq, entry }) => [seq, entry]));
  const names = new Map(cases.map(({ id, name }) => [id, name]));
  // A call that has a key is recognized by its name, as on the timeline.
  const labelOfCall = (call: NamedCall) => {
    const entry = entries.get(call.line ?? 0);
    if (entry?.type !== "call") return call.name;
    const { case_id } = entry;
    const scope = case_id === undefined ? "" : ` · ${names.get(case_id) ?? case_id}`;
    return `${toLabel(entry.call)}: ${calledOn(entry, job.id)}${scope}`;
  };
  const counts = new Map<string, number>();
  const recorded = calls.map((call) => {
    const label = labelOfCall(call);
    const count = (counts.get(label) ?? 0) + 1;
    counts.set(label, count);
    return { value: call.name, label: count === 1 ? label : `${label} #${count}` };
  });
  const all = [
    { value: START, label: "Start: all calls" },
    ...recorded,
    { value: END, label: "End: only what comes after them" },
  ];
  const shown = all.length > SHOWN_CALLS ? all.slice(-SHOWN_CALLS) : all;
  const wanted = calls.find((call) => call.line === line)?.name ?? shown.at(-2)?.value;
  const options = shown.map(
    ({ value, label }) =>
      html`<option value="${value}"${value === wanted ? html` selected` : ""}>${label}</option>`,
  );
  // The id is created with the form: sending the form twice starts only one job.
  const fields = html`<input type="hidden" name="job_id" value="${randomUUID()}"><div class="field"><label for="fork-from">First call that is made again</label><select class="input" id="fork-from" name="from">${options}</select></div><div class="field"><label for="fork-fields">Other values for its fields, as JSON</label><textarea class="input" id="fork-fields" name="fields" rows="4" placeholder='{ "name": "value" }'></textarea></div>`;
  return {
    ...onJob(job, "fork"),
    title: "Fork this job?",
    lines: [
      "A new job starts with what this one recorded before a call, and makes that call and all later ones. This job does not change.",
      "Copied results do not change with the fields: choose a call before everything that depends on them.",
    ],
    fields: fields.toString(),
    buttons: [button("Fork", {})],
  };
}

/** Confirmations of changes to a case. */
export function caseConfirms(parts: CommonParts, item: StoredCase, action: string): Confirm {
  const base = {
    ...{ action: pathTo("cases", item.id, action), back: pathTo("cases", item.id), fields: "" },
    subject: subjectOf(item, item.job_id),
  };
  if (action === "status") return { ...base, ...statusConfirm(item.status, labelOf, "case") };
  const lines = [
    `It will be deleted with ${countOf(item.update_count, "update")}. Its job is kept. ${textOfUndo(parts)}`,
  ];
  return {
    ...base,
    title: "Delete this case?",
    lines,
    buttons: [button("Delete the case", { style: "danger" })],
  };
}

/** The addresses of a change to a job, and which job it is. */
function onJob(job: StoredJob, action: string) {
  const back = pathTo("jobs", job.id);
  return { action: pathTo("jobs", job.id, action), back, subject: subjectOf(job, job.agent_name) };
}

/** What a change is about: its name, what it is of, and its id. */
function subjectOf({ id, name }: { readonly id: string; readonly name: string }, of: string): string {
  return html`<b><bdi>${name}</bdi></b><br><span class="faint">${of} · <span class="mono">${id}</span></span>`.toString();
}

function statusConfirm(current: string, labelOf: (status: string) => string, noun: string) {
  const lines = [
    `Overrides the agent. A final status ends the ${noun}'s work immediately; later updates are refused.`,
  ];
  const fields = html`<div class="field"><label for="new-status">Status</label><select class="input" id="new-status" name="status">${EntityStatusSchema.options.map(
    (status) =>
      html`<option value="${status}"${status === current ? html` selected` : ""}>${labelOf(status)}${status === current ? " (now)" : ""}</option>`,
  )}</select></div>`;
  return {
    title: `Set the ${noun}'s status`,
    lines,
    fields: fields.toString(),
    buttons: [button("Set status", {})],
  };
}

function limitField(name: string, label: string, value: number | null | undefined): Html {
  return html`<div class="field"><label for="${name}">${label}</label><input class="input" id="${name}" name="${name}" type="number" min="0" step="any" value="${value ?? ""}" placeholder="no limit"></div>`;
}

/** A button of a confirmation. */
export function button(
  label: string,
  {
    name = "confirm",
    value = "yes",
    style = "",
    isMain = true,
    focus = false,
  }: { name?: string; value?: string; style?: string; isMain?: boolean; focus?: boolean },
) {
  return { label, name, value, style: isMain ? `main ${style}`.trim() : style, focus };
}
