import * as v from "valibot";
import { describeIssue } from "./describe-issue.ts";
import { isUnknownMember, unknownMembers } from "./unknown-members.ts";

/** An invalid option or variable: names it and says what it must be. Its value is not repeated. */
export class OptionsError extends Error {
  override readonly name: string = "OptionsError";
}

export interface CheckOptions {
  /** The owner of the options, such as `of plugin "events"`. */
  readonly of?: string;
  /** The environment variable that an option can come from. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** Checks options against a schema; throws `OptionsError` naming each that is invalid or not known. */
export function checkOptions<S extends v.GenericSchema>(
  schema: S,
  options: unknown,
  { of = "", variables = {} }: CheckOptions = {},
): v.InferOutput<S> {
  const unknown = unknownMembers(schema, options);
  const result = v.safeParse(schema, options, { abortPipeEarly: true });
  if (result.success && unknown.length === 0) return result.output;
  const invalid = (result.issues ?? [])
    .filter((issue) => !isUnknownMember(issue))
    .map((issue) => {
      const path = v.getDotPath(issue) ?? "";
      // An item of a list comes from the variable of the list.
      const name = variables[path] ?? variables[path.replace(/\.\d+$/, "")];
      const variable = name === undefined ? "" : ` (${name})`;
      return `${path} ${describeIssue(issue)}${variable}`;
    });
  const problems = [...unknown.map(({ path, problem }) => `${path} ${problem}`), ...invalid];
  throw new OptionsError(`Cannot use these options${of && ` ${of}`}: ${problems.join("; ")}`);
}

/** Checks a value; throws what `refuse` makes of the first member that is not known or invalid, and of its path. */
export function checkFirst<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  refuse: (problem: string, path: string) => Error,
): v.InferOutput<S> {
  const [unknown] = unknownMembers(schema, value);
  if (unknown) throw refuse(`${unknown.path} ${unknown.problem}`.trim(), unknown.path);
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const path = v.getDotPath(issue) ?? "";
  throw refuse(`${path} ${describeIssue(issue)}`.trim(), path);
}

/** A number of at least `least`. */
export function atLeast(least: number, message = `must be at least ${least}`) {
  return v.pipe(v.number(message), v.finite(message), v.minValue(least, message));
}

/** A whole number of at least `least`. */
export function wholeAtLeast(least: number) {
  return v.pipe(atLeast(least), v.integer("must be a whole number"));
}
