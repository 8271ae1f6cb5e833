import * as v from "valibot";
import { checkFirst, OptionsError } from "../base/check-options.ts";
import { NewAccessSchema, type Role } from "../models/access.ts";

/** A named key that the code declares, by its SHA-256: it outlives disks, and the code has no secret. */
export interface DeclaredKeyOptions {
  /** Unique among the keys. */
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the key in hex, as `svc access declare` prints it. */
  readonly sha256: string;
  /** Slugs: only these agents and their jobs. @default all */
  readonly agents?: readonly string[];
  /** Only jobs of this workspace. @default all */
  readonly workspace?: string;
  /** Until when it works, such as `"2027-06-30"`. @default indefinitely */
  readonly expires?: string;
}

/** A declared key, checked. */
export interface DeclaredKey extends Omit<DeclaredKeyOptions, "expires"> {
  /** Milliseconds since the epoch. */
  readonly expires?: number;
}

const DeclaredKeySchema = v.object({
  ...NewAccessSchema.entries,
  sha256: v.pipe(
    v.string(),
    v.toLowerCase(),
    v.regex(
      /^[0-9a-f]{64}$/,
      "must be the SHA-256 of the key, 64 hexadecimal digits: svc access declare prints it",
    ),
  ),
  expires: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => !Number.isNaN(Date.parse(text)), "must be a date such as 2027-06-30"),
      v.transform((text) => Date.parse(text)),
    ),
  ),
});

/** Checks the declared keys; throws `OptionsError` that names the key, and never its hash. */
export function resolveDeclaredKeys(given: readonly DeclaredKeyOptions[] = []): readonly DeclaredKey[] {
  const keys = given.map((one, at) => {
    const refuse = (problem: string) => new OptionsError(`Option access.keys[${at}]: ${problem}`);
    return checkFirst(DeclaredKeySchema, one, refuse) as DeclaredKey;
  });
  for (const field of ["name", "sha256"] as const) {
    const seen = new Set<string>();
    for (const key of keys) {
      if (seen.has(key[field])) {
        throw new OptionsError(
          `Option access.keys: two keys have the same ${field}, one of them is "${key.name}"`,
        );
      }
      seen.add(key[field]);
    }
  }
  return keys;
}
