import { parseJson } from "../base/parse-json.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";
import type { AgentDefinition } from "./define-agent.ts";
import { fieldsOf } from "./fields.ts";

/** A part of a message. */
interface Part {
  readonly text?: unknown;
  readonly data?: unknown;
}

/**
 * The fields of a job that a message starts. Of a chat agent, its text is the message, and the job ends with the answer
 * unless its data say otherwise: a client that waits for the job waits for that.
 */
export function readJobFields(
  { chats, methods }: AgentDefinition,
  parts: readonly Part[],
): Record<string, unknown> {
  if (!chats) return readValues(parts, fieldsOf(methods.job_start).list);
  const data = Object.assign({}, ...parts.map((part) => part.data).filter(isMap)) as Record<string, unknown>;
  const text = parts.flatMap((part) => (typeof part.text === "string" ? [part.text] : [])).join("\n");
  return { once: true, ...data, ...(text !== "" && { message: text }) };
}

/**
 * The values that a message has for a form: those of its data; and its text, as JSON, or as the value of the only field
 * that it may be meant for. Throws a `TypeError` where its text is for none.
 */
export function readValues(
  parts: readonly Part[],
  fields: readonly AgentMethodField[],
): Record<string, unknown> {
  const values: Record<string, unknown> = Object.assign({}, ...parts.map(({ data }) => data).filter(isMap));
  const text = parts.flatMap((part) => (typeof part.text === "string" ? [part.text] : [])).join("\n");
  if (text === "") return values;
  const json = parseJson(text);
  if (isMap(json)) return { ...json, ...values };
  const open = fields.filter(({ name }) => !(name in values));
  const required = open.filter(({ required }) => required);
  const candidates = required.length > 0 ? required : open;
  const [field] = candidates;
  if (candidates.length !== 1 || field === undefined) {
    // A text beside the data that says all.
    if (required.length === 0 && Object.keys(values).length > 0) return values;
    throw new TypeError(
      `A text is not enough: send a data part with ${fields.map(({ name }) => name).join(", ") || "no fields"}`,
    );
  }
  return { ...values, [field.name]: toValue(field, text) };
}

function toValue({ field_type }: AgentMethodField, text: string): unknown {
  if (field_type === "BooleanField") {
    if (/^\s*(yes|true)\s*$/i.test(text)) return true;
    if (/^\s*(no|false)\s*$/i.test(text)) return false;
  }
  const isNumber = field_type === "IntegerField" || field_type === "FloatField";
  if (isNumber && /^\s*-?\d+(\.\d+)?\s*$/.test(text)) return Number(text);
  return field_type === "JSONField" ? (parseJson(text) ?? text) : text;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
