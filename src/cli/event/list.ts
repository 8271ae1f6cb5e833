import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { ReceivedEvent } from "../../core/models/received-event.ts";
import { requestCommand, showList } from "../job/request-command.ts";

/** `svc event list`: the events that a service has received. */
export const list = requestCommand({
  usage: "list",
  summary: "List received events, newest first",
  flags: {
    name: option.text("only events of this name", "name"),
    limit: v.optional(v.pipe(v.number(), v.description("how many, newest first")), 20),
  },
  examples: ["svc event list", "svc event list --name payment --json"],
  ask(client, { flags }) {
    const query = new URLSearchParams({
      limit: String(flags.limit),
      ...(flags.name !== undefined && { name: flags.name }),
    });
    return client.get<ReceivedEvent[]>(`/events?${query}`);
  },
  show: (events, { context }) => showList(events, { empty: EMPTY, header: HEADER, toRow }, context),
});

const EMPTY = "No matching events. Send one: svc event send <name>";
const HEADER = ["at", "event", "id", "jobs", "data"];

function toRow({ at, name, id, jobs, data }: ReceivedEvent): string[] {
  return [at, name, id, jobs.join(", ").slice(0, 100), JSON.stringify(data).slice(0, 100)];
}
