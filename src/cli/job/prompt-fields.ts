import { confirm, isCancel, note, select, text } from "@clack/prompts";
import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import { CliError } from "../errors.ts";
import { readFields } from "./read-fields.ts";

/** Asks a person at the terminal for each field. */
export async function promptFields(
  question: string,
  fields: readonly AgentMethodField[],
): Promise<Record<string, unknown>> {
  note(question);
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    const value = await promptField(field);
    if (isCancel(value)) throw new CliError("No answer was sent");
    if (value === "" && !field.required) continue;
    Object.assign(
      values,
      typeof value === "string" ? readFields([`${field.name}=${value}`], fields) : { [field.name]: value },
    );
  }
  return values;
}

function promptField(field: AgentMethodField): Promise<unknown> {
  const message = field.description ? `${field.name}: ${field.description}` : field.name;
  if (field.field_type === "BooleanField") return confirm({ message, initialValue: field.default === true });
  const initialValue = field.default === null || field.default === undefined ? "" : String(field.default);
  if (field.field_type !== "ChoiceField" || !field.choices) return text({ message, initialValue });
  const options = field.choices.map((choice) =>
    typeof choice === "string" ? { value: choice, label: choice } : { value: choice[0], label: choice[1] },
  );
  return select({ message, options, initialValue });
}
