import * as v from "valibot";
import { DeployError } from "./errors.ts";
import type { FlagsSchema } from "./platform.ts";

/** One option of a platform, as its schema describes it. */
export interface FlagInfo {
  /** Key in the schema, such as `minInstances`. */
  readonly key: string;
  /** Name on the command line, such as `min-instances`. */
  readonly flag: string;
  readonly kind: "boolean" | "number" | "text";
  readonly description: string;
  readonly default: unknown;
  readonly required: boolean;
  readonly min: number | undefined;
  readonly max: number | undefined;
  readonly choices: readonly string[] | undefined;
}

interface AnySchema {
  readonly type: string;
  readonly wrapped?: AnySchema;
  readonly default?: unknown;
  readonly pipe?: readonly AnySchema[];
  readonly options?: readonly unknown[];
  readonly requirement?: unknown;
  readonly description?: string;
}

/** The options that a platform's schema describes, in its order. */
export function readFlags(schema: FlagsSchema): FlagInfo[] {
  return Object.entries(schema.entries).map(([key, entry]) => toFlag(key, entry as unknown as AnySchema));
}

/** Checks what was typed against a platform's schema; the values of numbers are still text. */
export function parseFlags(
  schema: FlagsSchema,
  typed: Readonly<Record<string, string | boolean>>,
): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  for (const { key, flag, kind } of readFlags(schema)) {
    const value = typed[key];
    if (value === undefined) continue;
    input[key] = kind === "number" ? toNumber(flag, String(value)) : value;
  }
  const parsed = v.safeParse(schema, input);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const key = String(issue.path?.[0]?.key ?? "");
  const flag = `--${toFlagName(key)}`;
  if (input[key] === undefined)
    throw new DeployError("usage", `${flag} is missing`, { fix: `This platform needs it: give ${flag}` });
  throw new DeployError("usage", `${flag} ${String(input[key])}: ${explain(issue)}`);
}

/** `minInstances` as `min-instances`. */
export function toFlagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function toFlag(key: string, entry: AnySchema): FlagInfo {
  const layers = unwrap(entry);
  const find = (type: string) => layers.find((layer) => layer.type === type);
  const number = find("number") !== undefined;
  const bound = (type: string) => find(type)?.requirement as number | undefined;
  const optional = layers.some((layer) => ["optional", "nullish", "nullable"].includes(layer.type));
  const fallback = layers.find((layer) => layer.default !== undefined)?.default;
  return {
    key,
    flag: toFlagName(key),
    kind: find("boolean") ? "boolean" : number ? "number" : "text",
    description: layers.find((layer) => layer.type === "description")?.description ?? "",
    default: fallback,
    required: !optional,
    min: bound("min_value"),
    max: bound("max_value"),
    choices: find("picklist")?.options?.map(String),
  };
}

function unwrap(entry: AnySchema): AnySchema[] {
  const layers: AnySchema[] = [entry];
  if (entry.wrapped) layers.push(...unwrap(entry.wrapped));
  for (const item of entry.pipe ?? [])
    if (item !== entry) layers.push(...(item.type === entry.type ? [item] : unwrap(item)));
  return layers;
}

function toNumber(flag: string, text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number)) return number;
  throw new DeployError("usage", `--${flag} ${text}: not a number`);
}

function explain(issue: v.BaseIssue<unknown>): string {
  const { requirement } = issue as { requirement?: unknown };
  if (issue.type === "min_value") return `must be at least ${String(requirement)}`;
  if (issue.type === "max_value") return `must be at most ${String(requirement)}`;
  if (issue.type === "integer") return "must be a whole number";
  if (issue.type === "picklist") return `must be one of ${issue.expected ?? ""}`;
  return issue.message;
}
