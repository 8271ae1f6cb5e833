import * as v from "valibot";
import type { LiveStreams, StreamSource } from "../../../core/http/live-streams.ts";
import { defineRoute, type RouteDefinition } from "../../../core/http/route.ts";
import { toEventText } from "../../../core/http/server-event.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import type { AdminParts } from "../parts.ts";
import type { LiveHub } from "./hub.ts";
import { Mailbox } from "./mailbox.ts";

/** The stream of an open admin page: what changed, not its new content. */
export function liveRoute(
  { hub, sessions }: Pick<AdminParts, "hub" | "sessions">,
  streams: LiveStreams,
): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: "/admin/api/live",
    auth: "session",
    summary: "Follow changes",
    description:
      "Server-sent events: `hello` with the number of the last change, then `change` with topics and ids, batched so that at most one is sent per second. With `job`, changes of that job only.",
    tag: "Admin",
    query: v.object({ job: v.optional(EntityIdSchema) }),
    responses: { 200: { description: "The stream", contentType: "text/event-stream" } },
    handler: ({ query, event, actor }) => {
      if (event.req.method === "HEAD") return eventStreamHead();
      return streams.open(followChanges(hub, query.job), { caller: actor, over: sessions.over(event) });
    },
  });
}

function followChanges(hub: LiveHub, jobId: string | undefined): StreamSource {
  let mailbox: Mailbox | undefined;
  return (signal) => {
    if (mailbox) return mailbox.source(signal);
    const unsubscribe = hub.subscribe(jobId, (event, data, tick) =>
      box.put(`id: ${tick}\nevent: ${event}\ndata: ${data}\n\n`),
    );
    const box = new Mailbox({
      bound: 8,
      overflow: () =>
        toEventText({
          event: "change",
          data: { tick: hub.tick, topics: ["jobs", "cases", "service"], more: true },
        }),
      onEnd: unsubscribe,
    });
    mailbox = box;
    box.endWith(signal);
    box.put(toEventText({ event: "hello", id: hub.tick, data: hub.tick }));
    return box.source(signal);
  };
}

/** The head of a stream without the stream. */
export function eventStreamHead(): Response {
  return new Response(null, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}
