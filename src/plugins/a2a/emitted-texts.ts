import type { EmittedChunks } from "../../core/models/emitted-chunks.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { type Json, toArtifactUpdate } from "./updates.ts";

/** What steps emit, as artifacts that grow: one for each attempt of a step. */
export class EmittedTexts {
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
