import * as v from "valibot";
import type { AuditEntry } from "../../../core/models/audit-entry.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { stampsIn } from "../views/format.ts";
import { labelOf, setLabelOf } from "../views/pieces.ts";

const stamp = stampsIn("UTC");

/** What a line of the audit log has changed, in the words of the pages: `In progress → Stopped`. */
export function changeOf({ action, before, after }: Pick<AuditEntry, "action" | "before" | "after">): string {
  const isSet = action === "job.status";
  return [inWords(before), isSet && typeof after === "string" ? setLabelOf(after) : inWords(after)]
    .filter((part) => part !== "")
    .join(" → ");
}

function inWords(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return wordOf(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.map(partOf).join(", ");
  return Object.entries(value)
    .map(([name, one]) => `${spaced(name)} ${partOf(name === "from" ? spaced(String(one)) : one)}`)
    .join(", ");
}

function partOf(value: unknown): string {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return "none";
  if (Array.isArray(value)) return value.map(partOf).join(" and ");
  return typeof value === "object" ? JSON.stringify(value) : inWords(value);
}

function wordOf(text: string): string {
  if (v.is(EntityStatusSchema, text)) return labelOf(text);
  return ISO_TIME.test(text) ? stamp(text, "minute") : text;
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

function spaced(name: string): string {
  return name.replaceAll("_", " ");
}
