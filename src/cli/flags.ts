import * as v from "valibot";
import { describeIssue } from "../core/base/describe-issue.ts";
import { toFlagName } from "../core/base/option.ts";
import { suggest } from "../core/base/suggest.ts";
import type { FlagsSchema } from "./command.ts";
import { UsageError } from "./errors.ts";

/** One option of a command, as read from its schema. */
export interface Flag {
  /** Key in the schema, such as `minInstances`. */
  readonly key: string;
  /** As typed, without dashes, such as `min-instances`. */
  readonly name: string;
  readonly alias: string | undefined;
  readonly kind: "boolean" | "number" | "text";
  /** May be repeated. */
  readonly repeated: boolean;
  /** Name of the value in the help. */
  readonly value: string;
  readonly description: string;
  readonly fallback: unknown;
  /** Accepted, and not in the help: it has no effect on this command. */
  readonly hidden: boolean;
}

type AnySchema = v.GenericSchema & {
  readonly wrapped?: AnySchema;
  readonly item?: AnySchema;
  readonly options?: readonly unknown[];
  readonly pipe?: readonly { readonly kind: string }[];
};

/** The flags that a schema describes. */
export function describeFlags(schema: FlagsSchema): Flag[] {
  return Object.entries(schema.entries).map(([key, entry]) => toFlag(key, entry as AnySchema));
}

/**
 * Validates option values as typed and converts them to their types; throws `UsageError` naming the option.
 * `raw` holds text, true or false, or an array of them, by key.
 */
export function readFlags<F extends FlagsSchema>(
  schema: F,
  raw: Readonly<Record<string, unknown>>,
): v.InferOutput<F> {
  const flags = describeFlags(schema);
  const values: Record<string, unknown> = {};
  for (const flag of flags) {
    if (raw[flag.key] !== undefined) values[flag.key] = readFlag(flag, raw[flag.key]);
  }
  const result = v.safeParse(schema, values);
  if (result.success) return result.output;
  const issue = result.issues[0];
  const key = String(issue.path?.[0]?.key);
  const flag = flags.find((one) => one.key === key)!;
  throw toUsageError(flag, issue, values[key]);
}

function toFlag(key: string, entry: AnySchema): Flag {
  const layers = unwrap(entry);
  const list = layers.find((layer) => layer.type === "array");
  const base = list ? unwrap(list.item as AnySchema).at(-1)! : layers.at(-1)!;
  const kind = base.type === "boolean" || base.type === "number" ? base.type : "text";
  const metadata = Object.assign({}, ...layers.map((layer) => v.getMetadata(layer))) as {
    value?: string;
    alias?: string;
    hidden?: boolean;
    fallback?: unknown;
  };
  const choices = base.options?.filter((one) => typeof one === "string").join("|");
  return {
    key,
    name: toFlagName(key),
    alias: metadata.alias,
    kind,
    repeated: list !== undefined,
    value: metadata.value ?? (choices || (kind === "number" ? "number" : "text")),
    description: layers.map((layer) => v.getDescription(layer)).find((text) => text !== undefined) ?? "",
    fallback: v.getDefault(entry as v.GenericSchema) ?? metadata.fallback,
    hidden: metadata.hidden === true,
  };
}

/** A schema and those inside its `optional` and `nullable`, outermost first. */
function unwrap(schema: AnySchema): AnySchema[] {
  return schema.wrapped ? [schema, ...unwrap(schema.wrapped)] : [schema];
}

function readFlag(flag: Flag, raw: unknown): unknown {
  const given = [raw].flat();
  if (flag.kind === "boolean") return given.at(-1);
  if (given.some((one) => typeof one !== "string")) {
    throw new UsageError(`Option --${flag.name} needs a value`, `Write --${flag.name} <${flag.value}>.`);
  }
  if (!flag.repeated && given.length > 1) throw new UsageError(`Option --${flag.name} is set more than once`);
  const values = flag.kind === "number" ? given.map((one) => toNumber(flag, one as string)) : given;
  return flag.repeated ? values : values[0];
}

function toNumber(flag: Flag, text: string): number {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new UsageError(`Option --${flag.name} must be a number, not "${text}"`);
}

function toUsageError(flag: Flag, issue: v.BaseIssue<unknown>, value: unknown): UsageError {
  if (value === undefined) {
    return new UsageError(`Option --${flag.name} is missing`, `Write --${flag.name} <${flag.value}>.`);
  }
  const choices = flag.value.includes("|") ? flag.value.split("|") : [];
  if (choices.length > 0) {
    const meant = typeof value === "string" ? suggest(value, choices) : undefined;
    const rule = `Option --${flag.name} must be one of ${choices.join(", ")}, not "${value}"`;
    return new UsageError(rule, meant && `Did you mean ${meant}?`);
  }
  return new UsageError(`Option --${flag.name} ${describeIssue(issue)}, not "${value}"`);
}
