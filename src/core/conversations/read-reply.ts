import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";
import type { Question } from "../models/question.ts";
import { approvalField } from "./approval-field.ts";

/*
 * A reply is understood where all of its words say one thing; "yes, but only half of it" is not. What is not understood
 * is asked again.
 */

/** Of two phrases of which one begins with the other, the longer one comes first. */
const YES = [
  "yes|y|yeah|yep|yup|sure|ok|okay|true|correct|fine|absolutely|definitely|certainly|of course|all ?right",
  "(?:i )?(?:approved?|accept(?:ed)?|agreed?|confirm(?:ed)?)|(?:please )?go ahead|go for it|sounds good",
  "(?:please )?do (?:it|that|so)|please do",
].join("|");
const NO = [
  "no way|no|n|nope|nah|never|false|not now|(?:i )?(?:den(?:y|ied)|reject(?:ed)?|declined?|refused?)",
  "(?:please )?(?:do not|don't|dont)(?: (?:do|approve|accept) (?:it|that|so))?(?: do (?:it|that|so))?",
].join("|");
/** Words that change nothing. */
const POLITE = "please|thanks|thank you|then|for sure";

/** A question for a reader who can only reply with text; a client without threads sends its reference back. */
export function describeQuestion({ question, note, fields }: Question, reference?: string): string {
  const how = reference === undefined ? howToReply(fields) : `${howToReply(fields)} #${reference}`;
  return [question, note, `(${how})`].filter((part) => part !== undefined).join("\n\n");
}

/** The answer that a reply means, if it is clear. */
export function readReply(text: string, { fields }: Question): Record<string, unknown> | undefined {
  const reply = text.trim();
  const given = parseJson(reply);
  if (isRecord(given)) return given;
  const [field] = fields;
  if (!field) return says(reply, YES) ? {} : undefined;
  if (fields.length > 1) return readLines(reply, fields) ?? readApproval(reply, fields);
  const value = readValue(reply, field);
  return value === undefined ? undefined : { [field.name]: value };
}

function howToReply(fields: readonly AgentMethodField[]): string {
  const [field] = fields;
  if (!field) return "Reply ok.";
  if (fields.length > 1) {
    const how = approvalField(fields) ? "Reply yes or no, or with" : "Reply with";
    return `${how} a line for each: ${fields.map(toLine).join("; ")}`;
  }
  if (field.field_type === "BooleanField") return "Reply yes or no.";
  const choices = choicesOf(field);
  if (choices.length > 0) return `Reply with one of: ${choices.join(", ")}.`;
  return field.field_type === "JSONField" ? "Reply with JSON." : `Reply with the ${field.name}.`;
}

function toLine(field: AgentMethodField): string {
  const choices = choicesOf(field);
  const value = choices.length > 0 ? choices.join(" or ") : exampleOf(field.field_type);
  return `${field.name}: ${value}`;
}

/** The values of `name: value` lines, where each line is one, and no field that is required is missing. */
function readLines(reply: string, fields: readonly AgentMethodField[]): Record<string, unknown> | undefined {
  const values: Record<string, unknown> = {};
  for (const line of reply.split("\n").filter((one) => one.trim() !== "")) {
    const colon = line.indexOf(":");
    const [name, text] = [line.slice(0, Math.max(0, colon)), line.slice(colon + 1)].map((one) => one.trim());
    const field = fields.find((one) => one.name.toLowerCase() === name!.toLowerCase());
    const value = field && text !== "" ? readValue(text!, field) : undefined;
    if (!field || value === undefined || field.name in values) return undefined;
    values[field.name] = value;
  }
  const isWhole = fields.every(({ name, required }) => !required || name in values);
  return isWhole && Object.keys(values).length > 0 ? values : undefined;
}

function readApproval(
  reply: string,
  fields: readonly AgentMethodField[],
): Record<string, unknown> | undefined {
  const field = approvalField(fields);
  const value = field && readValue(reply, field);
  return value === undefined ? undefined : { [field!.name]: value };
}

function readValue(reply: string, field: AgentMethodField): unknown {
  switch (field.field_type) {
    case "BooleanField":
      return says(reply, YES) ? true : says(reply, NO) ? false : undefined;
    case "IntegerField":
    case "FloatField":
      return reply !== "" && Number.isFinite(Number(reply)) ? Number(reply) : undefined;
    case "JSONField":
      return parseJson(reply);
    case "MultipleChoiceField":
      return reply.split(",").map((one) => one.trim());
    default:
      return choicesOf(field).find((choice) => says(reply, quoted(plain(choice)))) ?? reply;
  }
}

/** Whether a text consists of these phrases, and of words that change nothing. */
function says(text: string, phrases: string): boolean {
  let rest = plain(text);
  let isSaid = false;
  while (rest !== "") {
    const [said] = new RegExp(`^(?:${phrases})(?: |$)`).exec(rest) ?? [];
    const [word] = said === undefined ? (new RegExp(`^(?:${POLITE})(?: |$)`).exec(rest) ?? []) : [said];
    if (word === undefined) return false;
    isSaid ||= said !== undefined;
    rest = rest.slice(word.length);
  }
  return isSaid;
}

/** A text without marks and capital letters. */
function plain(text: string): string {
  return text
    .toLowerCase()
    .replaceAll("’", "'")
    .replaceAll(/[.,;!?"]+/g, " ")
    .trim()
    .replaceAll(/\s+/g, " ");
}

function quoted(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

function choicesOf({ choices }: AgentMethodField): string[] {
  return (choices ?? []).map((choice) => (typeof choice === "string" ? choice : choice[0]));
}

function exampleOf(type: AgentMethodField["field_type"]): string {
  if (type === "BooleanField") return "yes or no";
  return type === "IntegerField" || type === "FloatField" ? "a number" : "…";
}
