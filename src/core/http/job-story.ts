import { setTimeout as pass } from "node:timers/promises";
import type { EmittedChunks } from "../models/emitted-chunks.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { AttemptEntry, CallEntry, StatusEntry } from "../models/run-entry.ts";
import { joinTexts } from "../runs/emissions/emissions.ts";
import { attemptKey } from "../runs/emissions/recorded-chunks.ts";
import { openQuestions } from "../runs/questions/open-questions.ts";
import { type AskedJob, findFirst, keepFirst, type ShownJob } from "./first-response.ts";
import { isAsking, isBusy } from "./settled.ts";

/*
 * The stream that is the response to a request, for any protocol. All of it follows from the record of the job, from where
 * the job was when the request came to where the first stream has ended: a request that is sent again gets the same, and
 * one whose first stream is not over yet joins.
 */

/** What a stream says about a job, in order. */
export type StoryEvent =
  /** The job when the request came. */
  | { readonly type: "began"; readonly shown: ShownJob }
  | { readonly type: "chunk"; readonly chunks: EmittedChunks }
  /** A call has ended, or an attempt of one. */
  | { readonly type: "entry"; readonly entry: CallEntry | AttemptEntry }
  /** The job works, or is being stopped. */
  | { readonly type: "moved"; readonly job: StoredJob }
  /** The job has ended or asks something: the last event. */
  | { readonly type: "ended"; readonly shown: ShownJob }
  /** The job was removed: the last event. */
  | { readonly type: "removed" };

/** Milliseconds for which it waits for further questions: those that are asked together are shown together. */
const TOGETHER = 100;

/** Events of a feed after which the job may have ended, or ask something. */
const MAY_END: ReadonlySet<string> = new Set(["snapshot", "status", "begun", "end"]);
const BUSY: ReadonlySet<EntityStatus> = new Set(["in_progress", "cancelling"]);

type Parts = Parameters<typeof keepFirst>[0];

/** What happens to a job from `start` until it has ended or asks something. */
export async function* tellStory(
  parts: Parts,
  asked: AskedJob,
  { start, signal }: { readonly start: ShownJob; readonly signal: AbortSignal },
): AsyncGenerator<StoryEvent, void, undefined> {
  const { feed } = parts;
  const { id } = asked.job;
  const { after } = start;
  const kept = await findFirst(parts, asked);
  const last = await feed.last(id);
  yield { type: "began", shown: start };
  let { status } = start.job;
  let [until, isCurrent] = [after, false];
  const open = new OpenTexts();
  for await (const { event, id: seq = until, data } of feed.watch(id, { after, signal })) {
    until = seq;
    if (event === "chunk") {
      open.add(data as EmittedChunks);
      yield { type: "chunk", chunks: data as EmittedChunks };
    } else if (event === "call" || event === "attempt") {
      const entry = data as CallEntry | AttemptEntry;
      open.end(entry);
      yield { type: "entry", entry };
    } else if (event === "status") {
      const { to, at } = data as StatusEntry;
      if (BUSY.has(to) && to !== status)
        yield { type: "moved", job: { ...start.job, status: to, updated_at: at } };
      if (BUSY.has(to)) status = to;
    }
    if (kept && until < kept.until && event !== "end") continue;
    // What was recorded before comes first: the job may have been asked and answered since.
    if (!kept && until < last) continue;
    if (!kept && isCurrent && !MAY_END.has(event)) continue;
    isCurrent = true;
    const shown = kept ?? (await firstEnd(parts, asked, { after, until, event, emitted: open.list() }));
    if (shown === "busy") continue;
    if (shown === "removed") return yield { type: "removed" };
    if (kept) for (const chunks of kept.emitted ?? []) yield { type: "chunk", chunks };
    return yield { type: "ended", shown };
  }
}

/** The job as the first response ends with it, which is stored. */
async function firstEnd(
  parts: Parts,
  { job: { id }, key }: AskedJob,
  { event, ...places }: Pick<ShownJob, "after" | "until" | "emitted"> & { readonly event: string },
): Promise<ShownJob | "busy" | "removed"> {
  const job = await parts.jobs.find(id);
  if (!job) return "removed";
  // Another stream of the same request may have ended before.
  const first = await findFirst(parts, { job, key });
  if (first) return first;
  // A job that has ended has more in its log.
  if (isTerminal(job.status)) return event === "end" ? keepFirst(parts, { job, key }, places) : "busy";
  if ((await openQuestions(parts.cases, job)).length === 0) return "busy";
  await pass(TOGETHER);
  const later = await parts.jobs.find(id);
  if (!later || isTerminal(later.status) || !isAsking(later)) return "busy";
  const shown = await keepFirst(parts, { job: later, key }, places);
  // Somebody else has answered: the job continues.
  return isBusy(shown.job) ? "busy" : shown;
}

/** What steps under way have emitted. */
class OpenTexts {
  readonly #open = new Map<string, { readonly first: EmittedChunks; readonly all: unknown[] }>();

  add(chunks: EmittedChunks): void {
    const place = placeOf(chunks);
    const before = this.#open.get(place);
    if (before && attemptKey(before.first) === attemptKey(chunks)) before.all.push(...chunks.chunks);
    else this.#open.set(place, { first: chunks, all: [...chunks.chunks] });
  }

  end(entry: CallEntry | AttemptEntry): void {
    this.#open.delete(placeOf(entry));
  }

  list(): EmittedChunks[] {
    return [...this.#open.values()].map(({ first, all }) => ({ ...first, index: 0, chunks: joinTexts(all) }));
  }
}

function placeOf({ case_id, position }: Pick<CallEntry, "case_id" | "position">): string {
  return `${case_id ?? "job"}/${position}`;
}
