import { isTerminal } from "../../models/entity-status.ts";
import { invalid } from "../check.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../route.ts";
import { shownEvent } from "../token-view.ts";
import type { MachineParts } from "./parts.ts";
import { JobPathSchema } from "./schemas.ts";

/** The live stream of a job. */
export function jobStreamRoute(parts: Pick<MachineParts, "prefix" | "seen" | "streams">): RouteDefinition {
  const { prefix, seen, streams } = parts;
  return defineRoute({
    method: "GET",
    path: `${prefix}/jobs/{id}/stream`,
    auth: "key",
    token: { scope: "status", job: "id" },
    needs: "view",
    narrows: true,
    summary: "Follow a job",
    description:
      "Server-sent events: `snapshot` with the current job, then every entry of its run log, named by its type, with its number as the event's id; finally `end` with the job's status. `Last-Event-ID` resumes the stream after that number, without a gap; for a job that has ended, without further events, the response is 204. Clients that stop reading are disconnected.",
    tag: "Jobs",
    params: JobPathSchema,
    responses: {
      200: { description: "The stream", contentType: "text/event-stream" },
      204: { description: "The job has ended and there are no further events" },
    },
    handler: async ({ params, event, caller }) => {
      const after = readLastEventId(event);
      const { jobs, feed } = seen(caller);
      const job = await jobs.get(params.id);
      if (after > 0 && isTerminal(job.status) && (await feed.last(job.id)) <= after) return undefined;
      if (event.req.method === "HEAD") {
        return new Response(null, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
      }
      return streams.open(
        feed.follow(
          job.id,
          after,
          caller.kind === "token" ? (event) => shownEvent(event, caller) : undefined,
        ),
        { caller },
      );
    },
  });
}

function readLastEventId(event: HttpEvent): number {
  const id = event.req.headers.get("last-event-id");
  if (id === null || id === "") return 0;
  if (/^\d{1,15}$/.test(id)) return Number(id);
  throw invalid("headers", "Last-Event-ID must be the id of an event of this stream");
}
