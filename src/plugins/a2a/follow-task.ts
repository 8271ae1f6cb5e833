import { type ShownJob, shownNow } from "../../core/http/first-response.ts";
import { isAsking, MOVES } from "../../core/http/settled.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import type { EmittedChunks } from "../../core/runs/emissions/emissions.ts";
import type { A2aParts } from "./parts.ts";
import { toTask } from "./task.ts";
import { type Json, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

export interface FollowOptions {
  /**
   * Ends it when the task asks something, too, and is given the task before what it ends with is shown: that is what this
   * gives. @default only when the task has ended
   */
  readonly untilAsked?: (job: StoredJob) => Promise<ShownJob>;
  readonly signal?: AbortSignal | undefined;
}

/** The task, then what its steps emit, its artifacts and its states, in the protocol's JSON, until it has ended. */
export async function* followTask(
  parts: A2aParts,
  given: StoredJob,
  { untilAsked, signal }: FollowOptions = {},
): AsyncGenerator<Json, void, undefined> {
  const { feed, jobs } = parts;
  // Read before the task is: what happens in between is in both, and shown once.
  const after = await feed.last(given.id);
  let job = await jobs.get(given.id);
  const isOver = (now: StoredJob) => isTerminal(now.status) || (untilAsked !== undefined && isAsking(now));
  const shownAt = async (now: StoredJob): Promise<ShownJob> =>
    isOver(now) && untilAsked ? untilAsked(now) : shownNow(parts, now);
  let shown = await shownAt(job);
  job = shown.job;
  const first = toTask(parts, shown);
  const known = new Set(idsOf(first));
  yield { task: first };
  if (isOver(job)) return;
  let told = markOf(job);
  const emitted = new EmittedTexts();
  for await (const { event, data } of feed.watch(job.id, { after, ...(signal && { signal }) })) {
    if (event === "chunk") yield* emitted.add(job, data as EmittedChunks);
    else if (event === "call" || event === "attempt") yield* emitted.end(job, data as RunEntry);
    const isMove = MOVES.has(event) || (event === "call" && (data as { call?: unknown }).call === "close");
    if (!isMove) continue;
    const found = await jobs.find(job.id);
    if (!found) return;
    // A job that has ended has more in its log.
    const mayEnd = !isTerminal(found.status) || event === "end";
    const mark = markOf(found);
    if (mark === markOf(job) && !(mayEnd && (mark !== told || isOver(found)))) continue;
    shown = mayEnd ? await shownAt(found) : await shownNow(parts, found);
    const now = shown.job;
    if (markOf(now) !== markOf(job)) {
      const { artifacts } = toTask(parts, shown);
      for (const artifact of artifacts as Json[]) {
        const id = String(artifact.artifactId);
        if (known.has(id)) continue;
        known.add(id);
        yield toArtifactUpdate(now, artifact);
      }
    }
    job = now;
    if (!mayEnd) continue;
    if (markOf(now) !== told) {
      told = markOf(now);
      yield toStatusUpdate(now, shown.asking);
    }
    if (isOver(now)) return;
  }
}

/** Another one after each change that is stored with the job. */
function markOf({ status, updated_at, open_questions }: StoredJob): string {
  return `${status} ${updated_at} ${open_questions}`;
}

function idsOf(task: Json): string[] {
  return (task.artifacts as Json[]).map(({ artifactId }) => String(artifactId));
}

/** What steps emit, as artifacts that grow: one for each attempt of a step. */
class EmittedTexts {
  readonly #open = new Map<string, string>();

  *add(job: StoredJob, { case_id, position, name, run, attempt, chunks }: EmittedChunks): Generator<Json> {
    const place = placeOf({ case_id, position });
    const artifactId = `emitted-${place}-${run}-${attempt}`;
    const append = this.#open.get(place) === artifactId;
    this.#open.set(place, artifactId);
    yield toArtifactUpdate(job, { artifactId, name, parts: toParts(chunks) }, { append, lastChunk: false });
  }

  *end(job: StoredJob, entry: RunEntry): Generator<Json> {
    if (entry.type !== "attempt" && entry.type !== "call") return;
    const place = placeOf(entry);
    const artifactId = this.#open.get(place);
    if (artifactId === undefined || (entry.type === "call" && entry.call !== "step")) return;
    this.#open.delete(place);
    yield toArtifactUpdate(job, { artifactId, name: entry.name, parts: [{ text: "" }] }, { append: true });
  }
}

function placeOf({ case_id, position }: { case_id?: string | undefined; position: number }): string {
  return `${case_id ?? "job"}-${position}`;
}

/** Texts in a row are one part. */
function toParts(chunks: readonly unknown[]): Json[] {
  const parts: Json[] = [];
  for (const chunk of chunks) {
    const last = parts.at(-1);
    if (typeof chunk !== "string") parts.push({ data: chunk });
    else if (last && "text" in last) parts[parts.length - 1] = { text: `${last.text}${chunk}` };
    else parts.push({ text: chunk });
  }
  return parts;
}
