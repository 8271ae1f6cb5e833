import { hostname } from "node:os";
import * as v from "valibot";
import { LOG_LEVELS } from "../../../core/base/log.ts";
import type { LiveStreams, StreamSource } from "../../../core/http/live-streams.ts";
import { wholeNumber } from "../../../core/http/query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { toEventText } from "../../../core/http/server-event.ts";
import { shortInstance } from "../../../core/models/own-rows.ts";
import { adminRoute } from "../admin-route.ts";
import { ConsoleSchema } from "../answers/service.ts";
import { Mailbox } from "../live/mailbox.ts";
import { eventStreamHead } from "../live/route.ts";
import type { AdminParts } from "../parts.ts";
import { optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatCount, toLabel } from "../views/format.ts";
import type { ConsoleBuffer, ConsoleLine, LineFilter } from "./buffer.ts";

const filter = {
  level: optionalText(v.picklist(LOG_LEVELS)),
  search: optionalText(v.pipe(v.string(), v.maxLength(200))),
  job: optionalText(v.pipe(v.string(), v.maxLength(200))),
  refresh: optionalText(v.string()),
};
const after = wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 });
const FilterSchema = v.object(filter);
const RangeSchema = v.object({ ...filter, after, limit: wholeNumber({ min: 1, max: 5000, default: 500 }) });

/** The console: page, lines, stream, download. */
export function consoleRoutes(parts: AdminParts, streams: LiveStreams): RouteDefinition[] {
  const { console: buffer } = parts;
  const instance = () => parts.runner().instance;
  const resource = (given: v.InferOutput<typeof RangeSchema>): Resource => {
    const query = withoutEmpty(given);
    return {
      page: "console",
      fragment: "log-lines",
      json: () => ({ items: buffer.read(query, query), last: buffer.last, instance: instance() ?? null }),
      state: () => pageState(buffer, query, instance()),
    };
  };
  return [
    ...resourceRoutes(parts, {
      needs: "operate",
      page: ["/admin/console", "Console page"],
      api: [
        "/admin/api/console",
        "Last lines of the log",
        "The newest lines that this instance has logged, without secrets.",
      ],
      query: RangeSchema,
      answer: "Lines, oldest first",
      schema: ConsoleSchema,
      resource: ({ query }) => resource(query),
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/console/stream",
      needs: "operate",
      summary: "Follow the log",
      description:
        "Server-sent events: `hello`, then `line` for each line after `after` or `Last-Event-ID`, `gap` if lines were lost.",
      query: RangeSchema,
      responses: { 200: { description: "The stream", contentType: "text/event-stream" } },
      handler: ({ query, event, caller }) => {
        if (event.req.method === "HEAD") return eventStreamHead();
        const last = Number(event.req.headers.get("last-event-id") ?? query.after);
        const from = Number.isInteger(last) ? last : query.after;
        const lines = followLines(buffer, withoutEmpty(query), from);
        return streams.open(lines, { caller, over: parts.sessions.over(event) });
      },
    }),
    adminRoute({
      method: "GET",
      path: "/admin/api/console/download",
      needs: "operate",
      summary: "Download the last lines of the log",
      description: "The newest lines that this instance has logged, without secrets, as a text file.",
      query: FilterSchema,
      responses: { 200: { description: "JSON lines", contentType: "application/x-ndjson" } },
      handler: ({ query }) =>
        new Response(
          buffer
            .read(withoutEmpty(query))
            .map(({ seq: _seq, ...line }) => `${JSON.stringify(line)}\n`)
            .join(""),
          {
            headers: {
              "content-type": "application/x-ndjson; charset=utf-8",
              "content-disposition": 'attachment; filename="service-log.ndjson"',
              "cache-control": "no-store",
            },
          },
        ),
    }),
  ];
}

function followLines(buffer: ConsoleBuffer, lineFilter: LineFilter, from: number): StreamSource {
  let mailbox: Mailbox | undefined;
  return (signal) => {
    if (mailbox) return mailbox.source(signal);
    // A number from before a restart is meaningless for this process's lines.
    const start = from > buffer.last ? 0 : from;
    const stop = buffer.listen(lineFilter, (line) => box.put(toText(line)));
    const box = new Mailbox({
      bound: 1000,
      overflow: (dropped) => toEventText({ event: "gap", data: dropped }),
      onEnd: stop,
    });
    mailbox = box;
    box.endWith(signal);
    const lost = start > 0 ? buffer.lost(start) : 0;
    const known = buffer.read(lineFilter, { after: start, limit: 500 });
    box.put(
      toEventText({ event: "hello", data: buffer.last }) +
        (lost > 0 ? toEventText({ event: "gap", data: lost }) : "") +
        known.map(toText).join(""),
    );
    return box.source(signal);
  };
}

function toText(line: ConsoleLine): string {
  return toEventText({ event: "line", id: line.seq, data: toView(line) });
}

function toView({ time, level, message, fields }: ConsoleLine) {
  return { time, clock: time.slice(11, 23), level, message, fields };
}

function pageState(
  buffer: ConsoleBuffer,
  query: LineFilter & { readonly after: number; readonly limit: number },
  instance: string | undefined,
): Record<string, unknown> {
  const { level, search, job } = query;
  const download = withQuery("/admin/api/console/download", { level, search, job });
  return {
    lines: buffer.read(query, query).map(toView),
    last: buffer.last,
    most: Math.min(buffer.most, 2000),
    download,
    summary: `The last ${formatCount(buffer.most)} lines of ${instance === undefined ? "this process" : `instance ${shortInstance(instance)} on ${hostname()}; the others have their own`}.`,
    filter: {
      search: search ?? "",
      job: job ?? "",
      levels: [
        { value: "", label: "All levels", selected: level === undefined },
        ...LOG_LEVELS.slice(1).map((value) => ({
          value,
          label: value === "error" ? "Errors only" : `${toLabel(value)} and above`,
          selected: level === value,
        })),
      ],
    },
  };
}
