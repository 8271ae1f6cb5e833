import * as v from "valibot";
import type { Redactor } from "../base/redactor.ts";

interface SchemaNode {
  readonly type: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly value?: v.GenericSchema;
  readonly pipe?: readonly unknown[];
  readonly options?: readonly (v.GenericSchema | string)[];
}

/**
 * A copy of a response without secrets. The schema says where text is free-form: a secret that happens to be
 * a word such as "completed" must not change a status, an id or the name of a field.
 */
export function cleanAnswer(
  value: unknown,
  schema: v.GenericSchema | undefined,
  redactor: Redactor,
): unknown {
  if (value === null || (typeof value !== "object" && typeof value !== "string")) return value;
  const node = schema as SchemaNode | undefined;
  if (node?.wrapped) return cleanAnswer(value, node.wrapped, redactor);
  if (node?.type === "union" || node?.type === "variant") {
    const fitting = node.options?.find((one) => v.is(one as v.GenericSchema, value));
    return cleanAnswer(value, fitting as v.GenericSchema | undefined, redactor);
  }
  if (typeof value === "string") return isClosed(node) ? value : redactor.text(value);
  // As serialized: dates and similar values are text by then.
  if (!node || "toJSON" in value) return redactor.json(value);
  if (Array.isArray(value)) return value.map((one) => cleanAnswer(one, node.item, redactor));
  const known = node.entries ?? {};
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) =>
      Object.hasOwn(known, name)
        ? [name, cleanAnswer(one, known[name], redactor)]
        : [redactor.text(name), cleanAnswer(one, node.value, redactor)],
    ),
  );
}

/** Whether a schema allows certain texts only, such as a status, or text of a certain form, such as an id. */
function isClosed(node: SchemaNode | undefined): boolean {
  if (!node) return false;
  if (node.type === "picklist" || node.type === "literal") return true;
  return node.pipe?.some((one) => FORMS.has((one as { type: string }).type)) ?? false;
}

const FORMS = new Set(["regex", "iso_timestamp", "uuid"]);
