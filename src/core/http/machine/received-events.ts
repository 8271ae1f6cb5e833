import * as v from "valibot";
import { ReceivedEvents } from "../../entities/received-events.ts";
import {
  EventKeySchema,
  EventNameSchema,
  ReceivedEventSchema,
  toReceivedEvent,
} from "../../models/received-event.ts";
import { JsonMapSchema } from "../../models/scalars.ts";
import { announcePage, behindCursor, cursorQuery } from "../cursor.ts";
import { pageQuery } from "../query.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const keyRoute = routesOf({ auth: "key", tag: "Events" });

const PathSchema = v.object({ name: EventNameSchema });
const BodySchema = v.object({ data: v.optional(JsonMapSchema, {}), id: v.optional(EventKeySchema) });
const QuerySchema = v.object({
  ...pageQuery({ max: 1000, default: 100 }),
  ...cursorQuery,
  name: v.optional(EventNameSchema),
});

/** Events for jobs that wait for them with `job.waitFor`. */
export function receivedEventRoutes({ prefix, runner, store }: MachineParts): RouteDefinition[] {
  const received = new ReceivedEvents(store);
  return [
    keyRoute({
      method: "POST",
      path: `${prefix}/events/{name}`,
      needs: "operate",
      summary: "Send an event to the jobs that wait for it",
      description:
        "The event is stored, and each job that waits for one like it gets it, whether it waits already or will later. With an `id`, repeating the request stores nothing; different data under the same id is refused with 409.",
      params: PathSchema,
      body: v.optional(BodySchema, {}),
      status: 202,
      responses: { 202: { description: "The event, stored", schema: ReceivedEventSchema } },
      handler: async ({ params, body }) => toReceivedEvent(await runner.receive(params.name, body)),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/events`,
      needs: "view",
      summary: "List the events that were sent to the service",
      description:
        "Newest first; the header `X-Total-Count` counts all that match, and `X-Next-Cursor` is `after` of the next page.",
      query: QuerySchema,
      responses: { 200: { description: "A page of events", schema: v.array(ReceivedEventSchema) } },
      handler: async ({ query: { name, after, ...page }, event }) => {
        const asked = { where: { name }, sort: "-created_at", ...page };
        const found = await received.list(behindCursor(asked, after));
        announcePage(event, asked.sort, found);
        return found.items.map(toReceivedEvent);
      },
    }),
  ];
}
