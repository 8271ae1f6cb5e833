import type { StoryEvent } from "../../core/http/job-story.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { EmittedTexts } from "./emitted-texts.ts";
import type { A2aParts } from "./parts.ts";
import { toTask } from "./task.ts";
import { deliveryOf, type Json, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

/** The task, then what its steps emit, its artifacts and its states, in the protocol's JSON, until it has ended or asks. */
export async function* toTaskEvents(
  parts: A2aParts,
  story: AsyncIterable<StoryEvent>,
): AsyncGenerator<Json, void, undefined> {
  const emitted = new EmittedTexts();
  const known = new Set<string>();
  let job: StoredJob | undefined;
  const toNew = function* (artifacts: readonly Json[]): Generator<Json> {
    for (const artifact of artifacts) {
      const id = String(artifact.artifactId);
      if (!known.has(id)) yield toArtifactUpdate(job!, artifact);
      known.add(id);
    }
  };
  for await (const event of story) {
    if (event.type === "removed") return;
    if (event.type === "began") {
      job = event.shown.job;
      const task = toTask(parts, event.shown);
      for (const { artifactId } of task.artifacts as Json[]) known.add(String(artifactId));
      yield { task };
    } else if (event.type === "chunk") {
      yield* emitted.add(job!, event.chunks);
    } else if (event.type === "entry") {
      const { entry } = event;
      yield* emitted.end(job!, entry);
      if (entry.type === "call" && entry.call === "close" && entry.case_id !== undefined)
        yield* toNew(deliveryOf(await parts.cases.summary(entry.case_id), parts.base));
    } else if (event.type === "moved") {
      yield toStatusUpdate(event.job, []);
    } else {
      job = event.shown.job;
      yield* toNew(toTask(parts, event.shown).artifacts as Json[]);
      yield toStatusUpdate(job, event.shown.asking);
    }
  }
}
