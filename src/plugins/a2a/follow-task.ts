import { shownNow } from "../../core/http/first-response.ts";
import { MOVES } from "../../core/http/settled.ts";
import type { EmittedChunks } from "../../core/models/emitted-chunks.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { EmittedTexts } from "./emitted-texts.ts";
import type { A2aParts } from "./parts.ts";
import { toTask } from "./task.ts";
import { type Json, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

/** The task, then what its steps emit, its artifacts and its states, in the protocol's JSON, until it has ended. */
export async function* followTask(
  parts: A2aParts,
  given: StoredJob,
  signal: AbortSignal,
): AsyncGenerator<Json, void, undefined> {
  const { feed, jobs } = parts;
  // Read before the task is: what happens in between is in both, and shown once.
  const after = await feed.last(given.id);
  let job = await jobs.get(given.id);
  const first = toTask(parts, await shownNow(parts, job));
  const known = new Set(idsOf(first));
  yield { task: first };
  if (isTerminal(job.status)) return;
  let told = markOf(job);
  const emitted = new EmittedTexts();
  for await (const { event, data } of feed.watch(job.id, { after, signal })) {
    if (event === "chunk") yield* emitted.add(job, data as EmittedChunks);
    else if (event === "call" || event === "attempt") yield* emitted.end(job, data as RunEntry);
    const isMove = MOVES.has(event) || (event === "call" && (data as { call?: unknown }).call === "close");
    if (!isMove) continue;
    const found = await jobs.find(job.id);
    if (!found) return;
    // A job that has ended has more in its log.
    const mayEnd = !isTerminal(found.status) || event === "end";
    const mark = markOf(found);
    if (mark === markOf(job) && !(mayEnd && (mark !== told || isTerminal(found.status)))) continue;
    const shown = await shownNow(parts, found);
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
    if (isTerminal(now.status)) return;
  }
}

/** Another one after each change that is stored with the job. */
function markOf({ status, updated_at, open_questions }: StoredJob): string {
  return `${status} ${updated_at} ${open_questions}`;
}

function idsOf(task: Json): string[] {
  return (task.artifacts as Json[]).map(({ artifactId }) => String(artifactId));
}
