import type { NamesOf } from "../core/base/refuse-unknown.ts";

/** The given options; throws a `TypeError` that names one which is not known, and those that are. */
export function onlyKnown<T extends object>(given: T, known: NamesOf<T>, of: string): T {
  for (const name in given)
    if (!Object.hasOwn(known, name))
      throw new TypeError(`${of}: ${name} is not known, only ${Object.keys(known).join(", ")}`);
  return given;
}

/** Names of the options of a request that has no others. */
export const SIGNAL: NamesOf<{ readonly signal?: AbortSignal | undefined }> = { signal: true };
