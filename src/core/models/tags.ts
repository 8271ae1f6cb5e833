import * as v from "valibot";

/** Tags that a job has at most. */
export const MOST_TAGS = 20;

const RULE =
  "must be 1 to 100 characters without commas and control characters, and not begin or end with a space";

/** A word by which jobs are found, such as `customer:acme`. */
export const TagSchema = v.pipe(v.string(), v.regex(/^[^\s\p{C},](?:[^\p{C},]{0,98}[^\s\p{C},])?$/u, RULE));

export const TagsSchema = v.pipe(
  v.array(TagSchema),
  v.maxLength(MOST_TAGS, `must have at most ${MOST_TAGS} tags`),
);

const SEPARATOR = "\n";

/** The tags of a job as lists find them; null for a job without any, which then costs an index nothing. */
export function tagText(tags: readonly string[] | undefined): string | null {
  return tags && tags.length > 0 ? `${SEPARATOR}${tags.join(SEPARATOR)}${SEPARATOR}` : null;
}

/** Which jobs have a tag, as a condition of a list: upper and lower case count as one. */
export function hasTag(tag: string): { readonly contains: string } {
  return { contains: `${SEPARATOR}${tag}${SEPARATOR}` };
}

/** How many jobs have each tag, from their numbers by `tagText`; those that most have first. */
export function countTags(counts: Readonly<Record<string, number>>): [tag: string, count: number][] {
  const sums = new Map<string, number>();
  for (const [text, count] of Object.entries(counts)) {
    if (!text.startsWith(SEPARATOR)) continue;
    for (const tag of text.slice(1, -1).split(SEPARATOR)) sums.set(tag, (sums.get(tag) ?? 0) + count);
  }
  return [...sums].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}

/** A recorded call that adds tags, by its name; its result has those that the job did not have, where it had some. */
interface TagCall {
  readonly name: string;
  readonly result?: unknown;
}

/** Joins the tags of a call to its name: none has a comma. */
export const TAG_SEPARATOR = ", ";

/** The tags of a job whose calls `gone` no longer count, while those in `kept` do. */
export function withoutTags(
  tags: readonly string[] | undefined,
  { gone, kept }: { readonly gone: readonly TagCall[]; readonly kept: readonly TagCall[] },
): string[] | undefined {
  const named = ({ name }: TagCall): string[] => name.split(TAG_SEPARATOR);
  const dropped = new Set(gone.flatMap((call) => (call.result as string[] | undefined) ?? named(call)));
  for (const tag of kept.flatMap(named)) dropped.delete(tag);
  return tags?.filter((tag) => !dropped.has(tag));
}

/** Both, each tag once. */
export function withTags(known: readonly string[] | undefined, more: readonly string[]): string[] {
  return [...new Set([...(known ?? []), ...more])];
}
