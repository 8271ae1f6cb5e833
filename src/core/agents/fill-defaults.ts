import { isDeepStrictEqual } from "node:util";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { AgentMethodField } from "../models/agent-method-field.ts";

type Values = Readonly<Record<string, unknown>>;

/** Returns the values as given, with defaults filled in; `values` is the schema's output. */
export type Fill = (given: Values, values: unknown) => MaybePromise<Record<string, unknown>>;

/**
 * Fills in the defaults of omitted fields, so that a job keeps the defaults that it started with. A default
 * is filled in only if the schema yields the same output for it as for a missing value: a function may return
 * a different one each time, and a default after a transformation is not an input. Such a field stays
 * missing, and the schema fills it in again.
 */
export function createFill(
  list: readonly AgentMethodField[],
  validate: (given: object) => MaybePromise<StandardSchemaV1.Result<unknown>>,
): Fill {
  const defaults = new Map(list.filter(isDefaulted).map((field) => [field.name, field.default]));
  /** The schema's output for the defaults that can be filled in. */
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
