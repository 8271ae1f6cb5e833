import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { ReceivedEvent } from "../../core/models/received-event.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { renderTable } from "../table.ts";

/** `svc event list`: the events that a service has received. */
export const list = defineCommand({
  usage: "list",
  summary: "List received events, newest first",
  flags: v.object({
    name: option.text("only events of this name", "name"),
    limit: v.optional(v.pipe(v.number(), v.description("how many, newest first")), 20),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc event list", "svc event list --name payment --json"],
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const query = new URLSearchParams({
      limit: String(flags.limit),
      ...(flags.name !== undefined && { name: flags.name }),
    });
    const events = await client.get<ReceivedEvent[]>(`/events?${query}`);
    if (flags.json) context.print(JSON.stringify(events, null, 2));
    else if (events.length === 0) context.print("No matching events. Send one: svc event send <name>");
    else
      context.print(
        renderTable(["at", "event", "id", "jobs", "data"], events.map(toRow), context.paint?.print),
      );
    return 0;
  },
});

function toRow({ at, name, id, jobs, data }: ReceivedEvent): string[] {
  return [at, name, id, jobs.join(", ").slice(0, 100), JSON.stringify(data).slice(0, 100)];
}
