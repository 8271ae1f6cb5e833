import { isRecord } from "../base/is-record.ts";
import type { Proven } from "./role-table.ts";

/** What is read from the claims about a person. */
export interface ClaimsRules {
  readonly issuer: string;
  /** The claim with the groups. */
  readonly groups: string;
  /** Whether an address without a word about it counts as verified. */
  readonly trustsEmail: boolean;
}

/** Reads a person from verified claims; `undefined` where they are about nobody. */
export function readPerson(
  claims: Readonly<Record<string, unknown>>,
  { issuer, groups, trustsEmail }: ClaimsRules,
): Proven | undefined {
  const { sub, email, email_verified } = claims;
  if (typeof sub !== "string" || sub === "") return undefined;
  const isVerified = email_verified === true || email_verified === "true";
  const isUnsaid = email_verified === undefined && trustsEmail;
  const hasEmail = typeof email === "string" && /^[^\s@:]+@[^\s@]+$/.test(email) && (isVerified || isUnsaid);
  return {
    issuer,
    subject: sub,
    ...(hasEmail && { email: email.toLowerCase() }),
    groups: readGroups(claims, groups),
  };
}

/** The groups of a claim: a list of texts or a text, under its name or at its path, such as `realm_access.roles`. */
function readGroups(claims: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const found = Object.hasOwn(claims, name) ? claims[name] : valueAt(claims, name.split("."));
  return [found].flat().filter((group): group is string => typeof group === "string" && group !== "");
}

function valueAt(value: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return value;
  return isRecord(value) && Object.hasOwn(value, name) ? valueAt(value[name], rest) : undefined;
}
