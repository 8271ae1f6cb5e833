import type { EmittedChunks } from "../core/models/emitted-chunks.ts";
import type { EntityStatus } from "../core/models/entity-status.ts";
import type { Job } from "../core/models/job.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import type { Http, RequestOptions } from "./http.ts";
import { hasEnded } from "./job-result.ts";
import { Outage } from "./outage.ts";
import { readServerEvents } from "./server-events.ts";

/** Something that happened to a job. */
export type JobEvent =
  /** The current job: first, and after each new connection. */
  | { readonly type: "snapshot"; readonly job: Job }
  /** A line of the job's record; `id` counts from 1. */
  | { readonly type: "entry"; readonly id: number; readonly entry: RunEntry }
  /** What a running step has emitted; not stored. */
  | EmittedChunks
  /** The job has ended, or was removed. The last event. */
  | { readonly type: "end"; readonly status: EntityStatus | "deleted" };

export interface StreamOptions extends RequestOptions {
  /** Id of the last entry that the caller has. @default 0: from the beginning */
  readonly after?: number | undefined;
}

/** Milliseconds without a byte after which a connection is dead: the service sends one every 15 s. */
const SILENCE = 45_000;

/**
 * What happens to a job, from its record: each entry once, in order, whatever connections break. Ends with the job.
 * Waits `patience` seconds for a service that does not answer.
 */
export async function* jobEvents(
  http: Http,
  path: string,
  { after = 0, signal }: StreamOptions,
): AsyncGenerator<JobEvent, void> {
  let last = after;
  const outage = new Outage(http.patience, signal);
  for (;;) {
    try {
      const headers = { accept: "text/event-stream", ...(last > 0 && { "last-event-id": String(last) }) };
      const { body, status } = await http.send(`${path}/stream`, { headers, signal, tries: 1 });
      if (status === 204 || !body) {
        // It has ended, and there are no more entries.
        const job = await http.json<Job>(`${path}/result`, { signal, tries: 1 });
        if (hasEnded(job)) return yield { type: "end", status: job.status };
      } else {
        for await (const { event, id, data } of readServerEvents(body, SILENCE)) {
          outage.over();
          const value = JSON.parse(data);
          if (event === "end") return yield { type: "end", status: value.status };
          if (event === "snapshot") yield { type: "snapshot", job: value };
          else if (event === "chunk") yield value;
          else if (Number(id) > last) {
            last = Number(id);
            yield { type: "entry", id: last, entry: value };
          }
        }
      }
      // A service that closes ends its streams.
      await outage.pause();
    } catch (error) {
      await outage.wait(error);
    }
  }
}
