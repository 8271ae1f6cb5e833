import type { EmittedChunks } from "../../core/models/emitted-chunks.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { type ServiceClient, StrangerError, UnreachableError } from "./service-client.ts";

/** Something that happened to a job. */
export type JobEvent =
  | { readonly type: "snapshot"; readonly job: Job }
  | { readonly type: "entry"; readonly entry: RunEntry }
  /** Not stored: what a step under way emits. */
  | { readonly type: "chunk"; readonly emitted: EmittedChunks }
  | { readonly type: "reconnecting" }
  | { readonly type: "end"; readonly status: string };

export interface FollowOptions {
  /** How long to wait for a service that is unreachable, or whose port another program has, seconds. @default 60 */
  readonly patience?: number;
  readonly wait?: (milliseconds: number) => Promise<void>;
}

/** Follows a job to its end; waits for a service that restarts in between, and misses nothing. */
export async function* followJob(
  client: ServiceClient,
  jobId: string,
  { patience = 60, wait = (ms) => new Promise((done) => setTimeout(done, ms)) }: FollowOptions = {},
): AsyncGenerator<JobEvent> {
  const path = `/jobs/${encodeURIComponent(jobId)}`;
  let last: string | undefined;
  let known = false;
  let away = 0;
  while (true) {
    let count = 0;
    try {
      for await (const { event, id, data } of client.events(`${path}/stream`, {
        after: last,
        repeatable: !known,
      })) {
        away = 0;
        count++;
        last = id ?? last;
        if (event === "end")
          return yield { type: "end", status: (JSON.parse(data) as { status: string }).status };
        if (event === "chunk") yield { type: "chunk", emitted: JSON.parse(data) as EmittedChunks };
        // A job that runs at another instance: its entries come anyway.
        else if (event === "chunks") continue;
        else if (event !== "snapshot") yield { type: "entry", entry: JSON.parse(data) as RunEntry };
        else if (!known) yield { type: "snapshot", job: JSON.parse(data) as Job };
        known = true;
      }
      if (count === 0) {
        const { status } = await client.get<JobResponse>(path, { repeatable: false });
        // It ended while nobody was connected, and there are no more events.
        if (isTerminal(status)) return yield { type: "end", status };
      }
    } catch (error) {
      if (!known || !mayReturn(error) || away >= patience) throw error;
    }
    if (away === 0) yield { type: "reconnecting" };
    away++;
    await wait(1000);
  }
}

/** Whether a service that has answered before may do so again after this. */
export function mayReturn(error: unknown): boolean {
  return error instanceof UnreachableError || error instanceof StrangerError;
}

/** The current state of a job. */
export async function readJob(client: ServiceClient, jobId: string): Promise<Job> {
  for await (const event of followJob(client, jobId)) {
    if (event.type === "snapshot") return event.job;
  }
  throw new UnreachableError(`The service at ${client.url} does not stream job "${jobId}"`);
}
