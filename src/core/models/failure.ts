import { createHash } from "node:crypto";
import type { StoredJob } from "./job.ts";

/** Characters of an error that count, and that a search finds. */
const LONGEST = 300;

/**
 * Names the reason why a job failed: 12 hexadecimal digits, the same for all jobs that failed for one reason; `null`
 * for a job that did not fail. It is made of `stop_reason` and of the error's first line, in which numbers and ids are
 * the same whatever they are. Stored indexes have it: a change of this function raises the version of table `Job`.
 */
export function failureOf({
  status,
  error,
  stop_reason,
}: Pick<StoredJob, "status" | "error" | "stop_reason">) {
  if (status !== "failed") return null;
  const text = `${stop_reason ?? "error"}\n${withoutIds(firstLineOf(error))}`;
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}

/** The first line of a job's error, as far as lists and searches have it; empty where there is none. */
export function firstLineOf(error: string | null): string {
  return (error ?? "").trimStart().split("\n", 1)[0]!.slice(0, LONGEST).trimEnd();
}

/** The same as people read it: with an ellipsis where it is longer. */
export function shownLineOf(error: string | null): string {
  const line = firstLineOf(error);
  const rest = (error ?? "").trimStart().slice(line.length).split("\n", 1)[0]!;
  return rest.trim() === "" ? line : `${line}…`;
}

/** A text in which numbers and ids are the same whatever they are. */
export function withoutIds(line: string): string {
  return line
    .replace(/\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*\b/gi, "#")
    .replace(/\d+/g, "#")
    .replace(/#(?:[-.:]#)+/g, "#");
}
