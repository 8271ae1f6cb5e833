import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import { isRecord } from "../../../core/base/is-record.ts";
import type { AuditEntry } from "../../../core/models/audit-entry.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { stampsIn } from "../views/format.ts";
import { labelOf, setLabelOf } from "../views/pieces.ts";

const stamp = stampsIn("UTC");

/** What a line of the audit log has changed, in the words of the pages: `In progress → Stopped`. */
export function changeOf({ action, before, after }: Pick<AuditEntry, "action" | "before" | "after">): string {
  const isSet = action === "job.status";
  const parts = [unlike(before, after), unlike(after, before)];
  // What is only known to be set may have changed as well.
  const [from, to] = parts.every((part) => inWords(part) === "") ? [before, after] : parts;
  return [inWords(from), isSet && typeof to === "string" ? setLabelOf(to) : inWords(to)]
    .filter((part) => part !== "")
    .join(" → ");
}

/** What a value has that another one has not. */
function unlike(value: unknown, other: unknown): unknown {
  if (!isRecord(value) || !isRecord(other)) return value;
  return Object.fromEntries(
    Object.entries(value).filter(([name, one]) => !isDeepStrictEqual(one, other[name])),
  );
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
