import { CONTEXT } from "./config.ts";
import type { Release, ReleaseSpec } from "./platform.ts";

/** A field that a release would change; the values of secrets are never shown. */
export interface FieldChange {
  readonly field: string;
  readonly from: string | null;
  readonly to: string | null;
}

/**
 * Differences between what runs and what should run: image, variables, secrets by name. A secret counts as
 * changed if its value must be stored again (it has a hash and no reference yet), or both hashes are known
 * and differ.
 */
export function specChanges(
  spec: ReleaseSpec,
  live: Release | undefined,
  liveHashes: Readonly<Record<string, string>> = {},
): FieldChange[] {
  const changes: FieldChange[] = [];
  const compare = (field: string, from: string | undefined, to: string | undefined) => {
    if (from !== to) changes.push({ field, from: from ?? null, to: to ?? null });
  };
  compare("image", live?.image, spec.image);

  // The mark changes with the image only, and its new value is not known before that.
  for (const key of sorted(Object.keys(live?.env ?? {}), Object.keys(spec.env)).filter(
    (one) => one !== CONTEXT,
  ))
    compare(`env.${key}`, live?.env?.[key], spec.env[key]);

  const wanted = Object.keys(spec.secrets);
  for (const key of sorted(live?.secretNames ?? [], wanted)) {
    const had = live?.secretNames?.includes(key) ?? false;
    const known = liveHashes[key];
    const next = spec.secretHashes[key];
    if (!wanted.includes(key)) changes.push({ field: `secret.${key}`, from: "set", to: null });
    else if (!had) changes.push({ field: `secret.${key}`, from: null, to: "set" });
    else if (
      (spec.secrets[key] === undefined && next !== undefined) ||
      (known !== undefined && next !== undefined && known !== next)
    )
      changes.push({ field: `secret.${key}`, from: "set", to: "changed" });
  }
  return changes;
}

function sorted(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort();
}
