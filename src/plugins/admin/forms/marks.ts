import { ServiceError } from "../../../core/base/errors.ts";

/** Whether a box of a form is checked, or its button pressed: both send `1`. Anything else is refused. */
export function isMarked(form: URLSearchParams, name: string): boolean {
  const text = form.get(name);
  if (text === null || text === "1") return text !== null;
  throw new ServiceError("invalid_request", `${name} must be 1, or omitted`);
}

/** The option that a form names; the first where it names none. Anything else is refused. */
export function optionIn<const Option extends string>(
  form: URLSearchParams,
  name: string,
  options: readonly [Option, ...Option[]],
): Option {
  const text = form.get(name);
  if (text === null) return options[0];
  const option = options.find((one) => one === text);
  if (option !== undefined) return option;
  throw new ServiceError("invalid_request", `${name} must be one of ${options.join(", ")}`);
}
