import { ServiceError } from "../../base/errors.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { AgentMethodField } from "../../models/agent-method-field.ts";
import type { Question } from "../../models/question.ts";

const YES = /^(yes|y|true|ok|okay|approved?|accept(ed)?)[.!]?$/i;
const NO = /^(no|n|false|den(y|ied)|reject(ed)?|decline[d]?)[.!]?$/i;

/** A question for a reader who can only reply with text. */
export function describeQuestion({ question, note, fields }: Question): string {
  return [question, note, `(${howToReply(fields)})`].filter((part) => part !== undefined).join("\n\n");
}

/** The answer that a reply means; throws what to reply instead. */
export function readReply(text: string, { fields }: Question): Record<string, unknown> {
  const reply = text.trim();
  const given = parseJson(reply);
  if (typeof given === "object" && given !== null && !Array.isArray(given))
    return given as Record<string, unknown>;
  const [field] = fields;
  const value = field && fields.length === 1 ? readValue(reply, field) : undefined;
  if (field && value !== undefined) return { [field.name]: value };
  throw new ServiceError("invalid_parameters", "The reply does not answer the open question", {
    detail: howToReply(fields),
  });
}

function howToReply(fields: readonly AgentMethodField[]): string {
  const [field] = fields;
  if (field && fields.length === 1) {
    if (field.field_type === "BooleanField") return "Reply yes or no.";
    const choices = choicesOf(field);
    if (choices.length > 0) return `Reply with one of: ${choices.join(", ")}.`;
    return field.field_type === "JSONField" ? "Reply with JSON." : `Reply with the ${field.name}.`;
  }
  const names = fields.map(({ name, field_type }) => `"${name}": ${exampleOf(field_type)}`);
  return `Reply with JSON: {${names.join(", ")}}`;
}

function readValue(reply: string, field: AgentMethodField): unknown {
  switch (field.field_type) {
    case "BooleanField":
      return YES.test(reply) ? true : NO.test(reply) ? false : undefined;
    case "IntegerField":
    case "FloatField":
      return reply !== "" && Number.isFinite(Number(reply)) ? Number(reply) : undefined;
    case "JSONField":
      return parseJson(reply);
    case "MultipleChoiceField":
      return reply.split(",").map((one) => one.trim());
    default:
      return choicesOf(field).find((choice) => choice.toLowerCase() === reply.toLowerCase()) ?? reply;
  }
}

function choicesOf({ choices }: AgentMethodField): string[] {
  return (choices ?? []).map(String);
}

function exampleOf(type: AgentMethodField["field_type"]): string {
  if (type === "BooleanField") return "true";
  return type === "IntegerField" || type === "FloatField" ? "0" : '"…"';
}
