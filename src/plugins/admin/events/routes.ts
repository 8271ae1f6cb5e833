import type * as v from "valibot";
import { ReceivedEvents } from "../../../core/entities/received-events.ts";
import { pageQuery } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { messageEvent } from "../../../core/models/message-event.ts";
import {
  EventNameSchema,
  type EventWait,
  type ReceivedEvent,
  toReceivedEvent,
} from "../../../core/models/received-event.ts";
import { EventsSchema, EventWaitsSchema } from "../answers/service.ts";
import { pagerOf, toPageOf } from "../lists/page-of.ts";
import type { AdminParts } from "../parts.ts";
import { filterQuery, optionalText, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatCount } from "../views/format.ts";
import { html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { linkPiece, pathTo, timePiece } from "../views/pieces.ts";

const PATH = "/admin/events";
const WAITS_PATH = "/admin/events/waiting";
const page = pageQuery({ max: 100, default: 50 });
const QuerySchema = filterQuery({ ...page, name: optionalText(EventNameSchema) });
const WaitsQuerySchema = filterQuery(page);
type Query = v.InferOutput<typeof QuerySchema>;
type Page = Pick<Query, "limit" | "skip">;

/** Events that were sent to the service, and the calls of jobs that wait for one. */
export function eventRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: [PATH, "Events page"],
      api: ["/admin/api/received-events", "List the events that were sent to the service", "Newest first."],
      query: QuerySchema,
      answer: "A page of events",
      schema: EventsSchema,
      resource: ({ query }) => receivedResource(parts, query),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      page: [WAITS_PATH, "Page of the jobs that wait for an event"],
      api: [
        "/admin/api/received-events/waiting",
        "List the calls of jobs that wait for an event",
        "Which job waits for which event, and until when.",
      ],
      query: WaitsQuerySchema,
      answer: "A page of waits",
      schema: EventWaitsSchema,
      resource: ({ query }) => waitsResource(parts, query),
    }),
  ];
}

function receivedResource({ store, clock }: AdminParts, { name: given, limit, skip }: Query): Resource {
  const received = new ReceivedEvents(store);
  const name = given || undefined;
  const read = async () => {
    const { items, total } = await received.list({ where: { name }, limit, skip });
    return toPageOf(items.map(toReceivedEvent), { total, limit, skip });
  };
  return {
    page: "events",
    fragment: "events",
    json: read,
    state: async () => {
      const [{ items, total }, waits] = await Promise.all([read(), received.waits({ limit: 0, skip: 0 })]);
      const now = clock();
      const all = name === undefined ? total : (await received.list({ limit: 0, skip: 0 })).total;
      return {
        ...frame({ current: PATH, received: all, waiting: waits.total }),
        ...pagerOf({ limit, skip, total }, (query) => withQuery(PATH, { name }, query)),
        filter: { name: name ?? "" },
        waits: [],
        rows: items.map((event) => toRow(event, now)),
        empty:
          name === undefined
            ? { title: "No event was received yet.", text: "Other systems send them to POST /events/{name}." }
            : { title: "No event of this name was received.", text: "Search for another name." },
      };
    },
  };
}

function waitsResource({ store, clock }: AdminParts, { limit, skip }: Page): Resource {
  const received = new ReceivedEvents(store);
  const read = async () => {
    const { items, total } = await received.waits({ limit, skip });
    return toPageOf(items.map(toWait), { total, limit, skip });
  };
  return {
    page: "events",
    fragment: "events",
    json: read,
    state: async () => {
      const [{ items, total }, events] = await Promise.all([read(), received.list({ limit: 0, skip: 0 })]);
      const now = clock();
      return {
        ...frame({ current: WAITS_PATH, received: events.total, waiting: total }),
        ...pagerOf({ limit, skip, total }, (query) => withQuery(WAITS_PATH, query)),
        filter: undefined,
        rows: [],
        waits: items.map(({ job_id, until, where, name }) => ({
          name: nameOf(name, [job_id]),
          where: where.join(", "),
          job: linkPiece(pathTo("jobs", job_id), job_id).toString(),
          until: until === null ? "" : timePiece(until, now).toString(),
        })),
        empty: { title: "No job waits for an event.", text: "Jobs that call job.waitFor appear here." },
      };
    },
  };
}

function frame({ current, received, waiting }: { current: string; received: number; waiting: number }) {
  const tab = (label: string, href: string, count: number) => ({
    ...{ label, href, count: formatCount(count), current: href === current },
  });
  return { tabs: [tab("Received", PATH, received), tab("Waiting", WAITS_PATH, waiting)] };
}

/** What an event is called: threads of a chat get their messages as events, with a name that nobody has chosen. */
function nameOf(name: string, jobs: readonly string[]): string {
  return jobs.some((job) => messageEvent(job) === name) ? "Message of a chat" : name;
}

/** What a stored wait says of the call. */
function toWait({ name, job_id, shape, until }: EventWait) {
  return { name, job_id, where: JSON.parse(shape.slice(name.length + 1)) as string[], until };
}

function toRow({ id, name, at, data, jobs }: ReceivedEvent, now: Date) {
  const links = jobs.map(
    (job, index) => html`${index > 0 ? ", " : ""}${linkPiece(pathTo("jobs", job), job)}`,
  );
  return {
    id,
    name: nameOf(name, jobs),
    at: timePiece(at, now).toString(),
    data: Object.keys(data).length > 0 ? renderJson(data) : "",
    jobs: html`${links}`.toString(),
  };
}
