import { parseJson } from "../../core/base/parse-json.ts";
import { suggest } from "../../core/base/suggest.ts";
import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import { UsageError } from "../errors.ts";

/**
 * Converts `name=value` to the type that the method declares, and `name:=json` to the JSON value.
 *
 * @example
 * readFields(["limit=3", "tags:=[\"a\"]"], [{ name: "limit", field_type: "IntegerField", … }]) // { limit: 3, tags: ["a"] }
 */
export function readFields(
  given: readonly string[],
  declared: readonly AgentMethodField[],
  flag = "field",
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const text of given) {
    const [, name, operator, value] = /^([^=:]+)(:?=)(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined) {
      throw new UsageError(
        `--${flag} ${text} has no value`,
        `Use --${flag} name=value, or --${flag} name:=json.`,
      );
    }
    const field = declared.find((one) => one.name === name);
    if (!field && declared.length > 0) throw unknownField(name, declared);
    values[name] = operator === ":=" ? readJson(name, value, flag) : toFieldValue(field, value);
  }
  return values;
}

function unknownField(name: string, declared: readonly AgentMethodField[]): UsageError {
  const names = declared.map((one) => one.name);
  const meant = suggest(name, names);
  return new UsageError(
    `There is no field "${name}"`,
    meant ? `Did you mean ${meant}?` : `Fields: ${names.join(", ")}.`,
  );
}

/** A value that does not match the type stays text: the service reports what it must be. */
function toFieldValue(field: AgentMethodField | undefined, text: string): unknown {
  switch (field?.field_type) {
    case "IntegerField":
    case "FloatField":
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
    case "BooleanField":
      if (/^(true|yes|on)$/i.test(text)) return true;
      return /^(false|no|off)$/i.test(text) ? false : text;
    case "MultipleChoiceField":
      return text === "" ? [] : text.split(",").map((one) => one.trim());
    case "JSONField":
      return parseJson(text, text);
    default:
      return text;
  }
}

function readJson(name: string, text: string, flag: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UsageError(`--${flag} ${name}:=… must be JSON`, `For plain text, use --${flag} ${name}=text.`);
  }
}
