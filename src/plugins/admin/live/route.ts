import * as v from "valibot";
import type { JobFeed } from "../../../core/http/job-feed.ts";
import type { LiveStreams, StreamSource } from "../../../core/http/live-streams.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { toEventText } from "../../../core/http/server-event.ts";
import type { EmittedChunks } from "../../../core/models/emitted-chunks.ts";
import type { CallEntryBase } from "../../../core/models/run-entry.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import { countRecentFailures } from "../failures/count-recent.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import type { PartSeen } from "./hub.ts";
import { Mailbox } from "./mailbox.ts";

/** An event, as a page sees no comments: it knows from the beats that it still hears the service. */
const BEAT = "event: beat\ndata:\n\n";

/** The stream of an open admin page: what changed, not its new content. */
export function liveRoute(parts: AdminParts, streams: LiveStreams): RouteDefinition {
  return seenRoute(parts, {
    method: "GET",
    path: "/admin/api/live",
    needs: "view",
    summary: "Follow changes",
    description:
      "Server-sent events: `hello` with the number of the last change, then `change` with topics and ids, batched so that at most one is sent per second. With `job`, changes of that job only, what its steps emit now as `chunk`, and `settled` when an attempt of such a step is over. `beat`, each 15 seconds, says that the stream is alive.",
    query: v.object({ job: v.optional(EntityIdSchema) }),
    responses: { 200: { description: "The stream", contentType: "text/event-stream" } },
    handler: async ({ query, event, caller }, seen) => {
      if (query.job !== undefined && caller.sight) await seen.jobs.get(query.job);
      if (event.req.method === "HEAD") return eventStreamHead();
      const { sessions } = parts;
      const over = sessions.over(event);
      return streams.open(followChanges(parts, query.job, toPart(parts, seen)), {
        caller,
        over,
        heartbeat: BEAT,
      });
    },
  });
}

function followChanges(
  { hub, feed, log }: Pick<AdminParts, "hub" | "feed" | "log">,
  jobId: string | undefined,
  part: PartSeen | undefined,
): StreamSource {
  let mailbox: Mailbox | undefined;
  return (signal) => {
    if (mailbox) return mailbox.source(signal);
    const unsubscribe = hub.subscribe(
      jobId,
      (event, data, tick) => box.put(`id: ${tick}\nevent: ${event}\ndata: ${data}\n\n`),
      part,
    );
    // The number of all changes says how much happens that others may not see.
    const now = () => (part ? Date.now() : hub.tick);
    const box = new Mailbox({
      bound: 8,
      overflow: () =>
        toEventText({
          event: "change",
          data: { tick: now(), topics: ["jobs", "cases", "service"], more: true },
        }),
      onEnd: unsubscribe,
    });
    mailbox = box;
    box.endWith(signal);
    const tick = now();
    box.put(toEventText({ event: "hello", id: tick, data: tick }));
    if (jobId !== undefined) {
      followSteps(feed, jobId, { box, signal }).catch((error: unknown) => {
        log.warn("an open page no longer shows what steps emit", { job_id: jobId, error });
      });
    }
    return box.source(signal);
  };
}

/** What the live stream of somebody who sees a part is made from. */
function toPart({ clock, attention, newest }: AdminParts, seen: SeenParts): PartSeen | undefined {
  const { caller, jobs, cases } = seen;
  if (caller.sight === undefined) return undefined;
  return {
    who: JSON.stringify(caller.sight),
    newest: (jobIds) => newest(jobIds, seen),
    countFailures: () => countRecentFailures({ jobs, clock, attention }),
    jobs: (id) => jobs.ids({ where: { id: [...id] } }),
    cases: (id) => cases.ids({ where: { id: [...id] } }),
    countQuestions: async () => (await cases.countBy("status")).awaiting ?? 0,
  };
}

/** What steps emit, and that an attempt is over: as fast as the page reads. */
async function followSteps(
  feed: JobFeed,
  jobId: string,
  { box, signal }: { readonly box: Mailbox; readonly signal: AbortSignal },
): Promise<void> {
  const after = await feed.last(jobId);
  const emitting = new Set<string>();
  const keyOf = ({ case_id, position }: Pick<CallEntryBase, "case_id" | "position">) =>
    `${case_id}/${position}`;
  for await (const { event, data } of feed.watch(jobId, { after, signal })) {
    if (event === "chunk") {
      emitting.add(keyOf(data as EmittedChunks));
      box.put(toEventText({ event, data }));
    } else if ((event === "call" || event === "attempt") && emitting.delete(keyOf(data as CallEntryBase))) {
      const { case_id, position } = data as CallEntryBase;
      box.put(toEventText({ event: "settled", data: { case_id, position } }));
    } else continue;
    await Promise.race([box.taken(), left(signal)]);
  }
}

function left(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

/** The head of a stream without the stream. */
export function eventStreamHead(): Response {
  return new Response(null, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}
