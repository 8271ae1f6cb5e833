import { isAsking, MOVES } from "../../core/http/settled.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import type { EmittedChunks } from "../../core/runs/emissions/emissions.ts";
import { openQuestions } from "../../core/runs/questions/open-questions.ts";
import type { A2aParts } from "./parts.ts";
import { toTask } from "./task.ts";
import { type Json, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

export interface FollowOptions {
  /** Whether it ends when the task asks something. @default only when the task has ended */
  readonly untilAsked?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The task, then what its steps emit, its artifacts and its states, in the protocol's JSON, until it has ended. */
export async function* followTask(
  parts: A2aParts,
  given: StoredJob,
  { untilAsked = false, signal }: FollowOptions = {},
): AsyncGenerator<Json, void, undefined> {
  const { feed, jobs, cases } = parts;
  // Read before the task is: what happens in between is in both, and shown once.
  const after = await feed.last(given.id);
  let job = await jobs.get(given.id);
  const first = await toTask(parts, job);
  const known = new Set(idsOf(first));
  yield { task: first };
  if (isTerminal(job.status) || (untilAsked && isAsking(job))) return;
  let told = markOf(job);
  const emitted = new EmittedTexts();
  for await (const { event, data } of feed.watch(job.id, { after, ...(signal && { signal }) })) {
    if (event === "chunk") yield* emitted.add(job, data as EmittedChunks);
    else if (event === "call" || event === "attempt") yield* emitted.end(job, data as RunEntry);
    const isMove = MOVES.has(event) || (event === "call" && (data as { call?: unknown }).call === "close");
    if (!isMove) continue;
    const now = await jobs.find(job.id);
    if (!now) return;
    if (markOf(now) !== markOf(job)) {
      const { artifacts } = await toTask(parts, now);
      for (const artifact of artifacts as Json[]) {
        const id = String(artifact.artifactId);
        if (known.has(id)) continue;
        known.add(id);
        yield toArtifactUpdate(now, artifact);
      }
    }
    job = now;
    // A job that has ended has more in its log.
    if (isTerminal(now.status) && event !== "end") continue;
    if (markOf(now) !== told) {
      told = markOf(now);
      yield toStatusUpdate(now, await openQuestions(cases, now));
    }
    if (isTerminal(now.status) || (untilAsked && isAsking(now))) return;
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
