import { createHash } from "node:crypto";
import { MARKS, RELEASE } from "./config.ts";
import type { Release, ReleaseSpec, SecretRef, StoredSecret } from "./platform.ts";

type Refs = Readonly<Record<string, SecretRef | undefined>>;

/**
 * What a release is made of, as text: a hash of its image and variables, and one of the references of its secrets. Two releases
 * with one mark are the same; every checkout computes it, the process reports it. It has no part of a secret's value. The public
 * URL is omitted, as some platforms fill it in.
 */
export function releaseMark({ image, env, secrets }: Pick<ReleaseSpec, "image" | "env" | "secrets">): string {
  const variables = Object.entries(env).filter(
    ([name]) => !MARKS.includes(name) && name !== "SERVICE_PUBLIC_URL",
  );
  return `${hashOf([["", image.split("@")[1] ?? image], ...variables])}-${hashOfRefs(secrets)}`;
}

/** The variables of a release with its mark. */
export function withMark(spec: ReleaseSpec): ReleaseSpec {
  return { ...spec, env: { [RELEASE]: releaseMark(spec), ...spec.env } };
}

/** Whether what runs was made from this spec; a release without a mark was not. */
export function isMadeFrom(live: Pick<Release, "env"> | undefined, spec: ReleaseSpec): boolean {
  return live?.env?.[RELEASE] === releaseMark(spec);
}

/** Names of stored secrets of which the running release has another value, or may have: what is stored was not released. */
export function unreleasedSecrets(
  live: Pick<Release, "env" | "secretNames" | "secrets"> | undefined,
  stored: readonly (SecretRef | StoredSecret)[],
): string[] {
  const running = live?.secretNames ?? [];
  const known = stored.filter(({ name }) => running.includes(name));
  const refs = live?.secrets;
  if (refs !== undefined)
    return known.filter(({ name, ref }) => (refs[name] ?? ref) !== ref).map(({ name }) => name);
  const mark = live?.env?.[RELEASE]?.split("-")[1];
  const now: Refs = Object.fromEntries(
    running.map((name) => [name, known.find((secret) => secret.name === name)]),
  );
  return mark === undefined || mark === hashOfRefs(now) ? [] : known.map(({ name }) => name);
}

function hashOfRefs(refs: Refs): string {
  return hashOf(Object.entries(refs).map(([name, secret]) => [name, secret?.ref ?? ""]));
}

/** A hash of entries, whatever their order. */
function hashOf(entries: readonly (readonly [string, string])[]): string {
  const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 16);
}
