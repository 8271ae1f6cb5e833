import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";
import type { FileValue } from "../models/file.ts";
import type { AgentDefinition } from "./define-agent.ts";
import { fieldsOf } from "./fields.ts";

/** A file as a field takes it: an upload, a small content in base64, or one of a job whose files the request may name. */
export type GivenFile =
  | FileValue
  | { readonly upload: string }
  | { readonly data: string; readonly name?: string; readonly type?: string };

/** A part of a message. */
interface Part {
  readonly text?: unknown;
  readonly data?: unknown;
  readonly file?: GivenFile | undefined;
  /** The field that the file is for. @default the first one for files that has none */
  readonly field?: string | undefined;
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
  const data = dataOf(parts);
  const text = parts.flatMap((part) => (typeof part.text === "string" ? [part.text] : [])).join("\n");
  const files = parts.flatMap(({ file }) => (file ? [file] : []));
  return {
    ...{ once: true, ...data },
    ...(text !== "" && { message: text }),
    ...(files.length > 0 && { files }),
  };
}

/**
 * The values that a message has for a form: those of its data; and its text, as JSON, or as the value of the only field
 * that it may be meant for; and its files. Throws a `TypeError` where its text or a file is for none.
 */
export function readValues(
  parts: readonly Part[],
  fields: readonly AgentMethodField[],
): Record<string, unknown> {
  const values = dataOf(parts);
  for (const part of parts) if (part.file) addFile(values, part, fields);
  const text = parts.flatMap((part) => (typeof part.text === "string" ? [part.text] : [])).join("\n");
  if (text === "") return values;
  const json = parseJson(text);
  if (isRecord(json)) return { ...json, ...values };
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

/** Adds a file to the field that it names, or to the first one for files that has none, or takes several. */
function addFile(
  values: Record<string, unknown>,
  { file, field }: Part,
  fields: readonly AgentMethodField[],
): void {
  const isFree = ({ name, field_type, type }: AgentMethodField) =>
    field_type === "FileField" && (!(name in values) || (type === "array" && Array.isArray(values[name])));
  const target = fields.find((one) => isFree(one) && (field === undefined || one.name === field));
  if (target === undefined) {
    const names = fields.filter(({ field_type }) => field_type === "FileField").map(({ name }) => name);
    const taken = names.length === 0 ? "no files are accepted" : `files are for ${names.join(", ")}`;
    throw new TypeError(`A file${field === undefined ? "" : ` for "${field}"`} has no place: ${taken}`);
  }
  const before = values[target.name] as unknown[] | undefined;
  values[target.name] = target.type === "array" ? [...(before ?? []), file] : file;
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

function dataOf(parts: readonly Part[]): Record<string, unknown> {
  return Object.assign({}, ...parts.map(({ data }) => data).filter(isRecord));
}
