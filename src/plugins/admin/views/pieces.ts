import type { StoredCase } from "../../../core/models/case.ts";
import type { EntityStatus } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { type StateFields, shownStateOf } from "../../../core/models/job-state.ts";
import { formatDuration, type TimeView, toLabel, toTimeView } from "./format.ts";
import { Html, html } from "./html.ts";

/** A status with its mark; the text carries the meaning, the color only repeats it. */
export function statusPiece(status: EntityStatus | string, label = labelOf(status)): Html {
  return html`<span class="st st-${status}">${label}</span>`;
}

/** What a job does, in a word: a held job is not one that waits for an answer, and one that sleeps does not run. */
export function jobPiece(job: StateFields, isStuck = false): Html {
  const state = isStuck ? "stuck" : shownStateOf(job);
  return statusPiece(MARKS[state] ?? state, labelOf(state));
}

/** The state of a job, or the status of a case. */
export function entityPiece(entity: StoredJob | StoredCase): Html {
  return "job_id" in entity ? statusPiece(entity.status) : jobPiece(entity);
}

/** What a status or state is called on pages. */
export function labelOf(status: string): string {
  return LABELS[status] ?? toLabel(status);
}

/** What a status is called that a person sets for a job: one that is set to `stopped` waits in no queue. */
export function setLabelOf(status: string): string {
  return labelOf(status === "stopped" ? "parked" : status);
}

/** States that have the mark of a status. */
const MARKS: Readonly<Record<string, string>> = {
  running: "in_progress",
  waiting_for_answer: "awaiting",
  queued: "stopped",
  parked: "stopped",
  stopping: "cancelling",
};

const LABELS: Readonly<Record<string, string>> = {
  stopped: "Queued",
  in_progress: "In progress",
  awaiting: "Waiting",
  cancelling: "Stopping",
  waiting_for_answer: "Waiting",
  waiting_for_event: "Waiting for an event",
  waiting_for_child: "Waiting for a child",
  parked: "Stopped",
  pulled: "Copy",
};

/** A time that the page's script keeps up to date. */
export function timePiece(timestamp: string | null | undefined, now: Date): Html {
  const time = toTimeView(timestamp, now);
  return time ? timeHtml(time) : html`<span class="faint">–</span>`;
}

/** Something of which only the hour is known: how many hours ago it was at most, as its minute is in no record. */
export function hourPiece(hour: string | null | undefined, now: Date): Html {
  const time = toTimeView(hour, now);
  const hours = time ? Math.floor((now.getTime() - Date.parse(time.iso)) / HOUR) + 1 : 0;
  if (!time || hours > 24) return timePiece(hour, now);
  const text = hours <= 1 ? "in the last hour" : `in the last ${hours} h`;
  return html`<time datetime="${time.iso}" title="${time.full}" data-relative="${text}">${text}</time>`;
}

/** A time by what has passed since another one: `+12.3 s`. */
export function offsetPiece(timestamp: string, from: string): Html {
  const passed = Date.parse(timestamp) - Date.parse(from);
  const time = toTimeView(timestamp, new Date(timestamp));
  if (!time || Number.isNaN(passed)) return html`<span class="faint">–</span>`;
  const offset = `${passed < 0 ? "−" : "+"}${formatDuration(Math.abs(passed))}`;
  return html`<time datetime="${time.iso}" title="${time.full}" data-relative="${offset}">${offset}</time>`;
}

function timeHtml(time: TimeView): Html {
  return html`<time datetime="${time.iso}" title="${time.full}" data-relative>${time.relative}</time>`;
}

/** A link inside the admin interface; the path's parts are escaped by `pathTo`. */
export function linkPiece(href: string, text: string): Html {
  return html`<a class="link" href="${href}">${text}</a>`;
}

/** A path of the admin interface with an id in it. */
export function pathTo(
  kind: "jobs" | "cases" | "agents" | "schedules" | "deleted" | "deleted-cases" | "access" | "access/people",
  id: string,
  ...rest: readonly string[]
): string {
  return ["/admin", kind, encodeURIComponent(id), ...rest].join("/");
}

/** A horizontal meter as SVG, since the page allows no inline styles. */
export function meterBar(share: number): Html {
  const width = Math.round(Math.min(1, Math.max(0, share)) * 1000) / 10;
  return html`<svg aria-hidden="true"><rect width="${width}%" height="5" rx="2.5"/></svg>`;
}

/** HTML from one of our own renderers. */
export function trusted(text: string): Html {
  return new Html(text);
}

const HOUR = 3_600_000;
/** How long before it is due an answer is urgent, in milliseconds. */
const SOON = 24 * HOUR;

/** When an answer is due, kept current by the page's script; nothing if there is no deadline. */
export function duePiece(deadline: string | null | undefined, now: Date): Html {
  const time = toTimeView(deadline, now);
  if (!time) return html``;
  const late = new Date(time.iso) <= now;
  const soon = Date.parse(time.iso) - now.getTime() < SOON;
  return html`<time class="due${late ? " late" : soon ? " soon" : ""}" datetime="${time.iso}" title="${time.full}" data-until="due in|overdue for">${late ? "overdue for" : "due in"} ${distance(time.iso, now)}</time>`;
}

/** The time that is left until a deadline, in words; nothing if there is none. */
export function leftPiece(deadline: string | null | undefined, now: Date): Html | undefined {
  const time = toTimeView(deadline, now);
  if (!time) return undefined;
  const late = new Date(time.iso) <= now;
  return html`<time datetime="${time.iso}" title="${time.full}" data-until="in the next|now, overdue for">${late ? "now, overdue for" : "in the next"} ${distance(time.iso, now)}</time>`;
}

function distance(iso: string, now: Date): string {
  return formatDuration(Math.abs(Date.parse(iso) - now.getTime()));
}
