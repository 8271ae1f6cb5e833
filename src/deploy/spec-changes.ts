import { isDeepStrictEqual } from "node:util";
import { passwordIn } from "../core/base/redactor.ts";
import type { ResourceAction } from "../core/models/deployment.ts";
import { MARKS } from "./config.ts";
import type { Release, ReleaseSpec } from "./platform.ts";
import { findSecret } from "./secret-forms.ts";

/** A field that a release would change; the values of secrets are never shown, of variables that may be some neither. */
export interface FieldChange {
  readonly field: string;
  readonly from: string | null;
  readonly to: string | null;
}

/** Fields whose values differ, each with what it is and what it would be. */
export function changesOf(
  fields: readonly (readonly [field: string, from: unknown, to: unknown])[],
): FieldChange[] {
  return fields
    .filter(([, from, to]) => !isDeepStrictEqual(from, to))
    .map(([field, from, to]) => ({ field, from: text(from), to: text(to) }));
}

function text(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Fields that an action of a plan changes. A resource to create has none: its fields are in the configuration. */
export function fieldChanges({
  metadata,
  action_type,
  resource_type,
}: ResourceAction): readonly FieldChange[] {
  if (action_type !== "update" || resource_type === "secret") return [];
  const changes = metadata?.changes;
  return Array.isArray(changes) ? (changes as FieldChange[]) : [];
}

/**
 * Differences between what runs and what should run: image, variables, secrets by name. A secret counts as
 * changed if its value must be stored again (it has a hash and no reference yet), or if the running release has another
 * reference than the stored value.
 */
export function specChanges(spec: ReleaseSpec, live: Release | undefined): FieldChange[] {
  const changes: FieldChange[] = [];
  // What somebody has set by hand as a variable may be a secret, and often is listed as one next.
  const secrets = [...Object.keys(spec.secrets), ...(live?.secretNames ?? [])];
  const isHidden = (key: string, value: string) => secrets.includes(key) || looksSecret(key, value);
  const compare = (field: string, from: string | undefined, to: string | undefined) => {
    changes.push(...changesOf([[field, from, to]]));
  };
  compare("image", live?.image, spec.image);

  // Marks change with the rest only, and their new values are not known before that.
  for (const key of sorted(Object.keys(live?.env ?? {}), Object.keys(spec.env)).filter(
    (one) => !MARKS.includes(one),
  ))
    for (const change of changesOf([[`env.${key}`, live?.env?.[key], spec.env[key]]]))
      changes.push({ ...change, ...hidden(change, (value) => isHidden(key, value)) });

  const wanted = Object.keys(spec.secrets);
  for (const key of sorted(live?.secretNames ?? [], wanted)) {
    const had = live?.secretNames?.includes(key) ?? false;
    const ref = spec.secrets[key]?.ref;
    const running = live?.secrets?.[key];
    const isOther =
      ref === undefined ? spec.secretHashes[key] !== undefined : running !== undefined && running !== ref;
    if (!wanted.includes(key)) changes.push({ field: `secret.${key}`, from: "set", to: null });
    else if (!had) changes.push({ field: `secret.${key}`, from: null, to: "set" });
    else if (isOther) changes.push({ field: `secret.${key}`, from: "set", to: "changed" });
  }
  return changes;
}

/** Both values in other words where one of them is not to be shown. */
function hidden({ from, to }: FieldChange, isHidden: (value: string) => boolean): Partial<FieldChange> {
  if (![from, to].some((value) => value !== null && isHidden(value))) return {};
  return { from: from === null ? null : "set", to: to === null ? null : from === null ? "set" : "changed" };
}

/** By the name of a variable, or by what it contains. */
function looksSecret(name: string, value: string): boolean {
  const isNamed =
    /(^|_)(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?|API_?KEY|PRIVATE_KEY)S?($|_)/i.test(name);
  return isNamed || findSecret(value) !== undefined || passwordIn(value) !== undefined;
}

function sorted(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort();
}
