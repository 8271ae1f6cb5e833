import { isDeepStrictEqual } from "node:util";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";

type Values = Readonly<Record<string, unknown>>;

/** Gives the values as given, with defaults filled in; `values` is what the schema has made of them. */
export type Fill = (given: Values, values: unknown) => MaybePromise<Record<string, unknown>>;

/**
 * Fills in the defaults of fields that were not given, so that a job keeps those that it began with. One is filled in
 * only if the schema makes the same of it as of nothing: that of a function may differ each time, and one that stands
 * behind a transformation is no input. Such a field stays as it is, for the schema to fill in again.
 */
export function createFill(
  list: readonly AgentMethodField[],
  validate: (given: object) => MaybePromise<StandardSchemaV1.Result<unknown>>,
): Fill {
  const defaults = new Map(list.filter(isDefaulted).map((field) => [field.name, field.default]));
  /** What the schema makes of the defaults that can be filled in. */
  const known = new Map<string, unknown>();

  const verify = (name: string, given: Values, wanted: unknown): MaybePromise<void> =>
    andThen(validate({ ...given, [name]: defaults.get(name) }), ({ issues, ...result }) => {
      const made = issues ? undefined : fieldOf("value" in result ? result.value : undefined, name);
      if (made !== undefined && isDeepStrictEqual(made, wanted)) known.set(name, made);
      else defaults.delete(name);
    });

  return (given, values) => {
    const missing = [...defaults.keys()].filter(
      (name) => !Object.hasOwn(given, name) || given[name] === undefined,
    );
    const isKnown = (name: string) =>
      known.has(name) && isDeepStrictEqual(known.get(name), fieldOf(values, name));
    const checks = missing
      .filter((name) => !isKnown(name))
      .map((name) => verify(name, given, fieldOf(values, name)))
      .filter((check) => check instanceof Promise);
    const fill = (): Record<string, unknown> => {
      const filled = missing.filter((name) => defaults.has(name));
      return { ...given, ...Object.fromEntries(filled.map((name) => [name, defaults.get(name)])) };
    };
    return checks.length === 0 ? fill() : Promise.all(checks).then(fill);
  };
}

function isDefaulted(field: AgentMethodField): boolean {
  return field.default !== null;
}

function fieldOf(values: unknown, name: string): unknown {
  const isObject = typeof values === "object" && values !== null;
  return isObject && Object.hasOwn(values, name) ? (values as Values)[name] : undefined;
}
