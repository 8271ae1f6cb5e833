import * as v from "valibot";
import type { Schedule } from "../../core/models/schedule.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { renderTable } from "../table.ts";

/** `svc schedule list`: what is planned, and what came of it. */
export const list = defineCommand({
  usage: "list",
  summary: "List the schedules with their next and last times",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc schedule list", "svc schedule list --json"],
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const schedules = await client.get<Schedule[]>("/schedules");
    if (flags.json) context.print(JSON.stringify(schedules, null, 2));
    else if (schedules.length === 0) context.print("The service has no schedules.");
    else {
      const header = ["schedule", "agent", "cron", "next", "last", "problem"];
      context.print(renderTable(header, schedules.map(toRow), context.paint?.print));
    }
    return 0;
  },
});

function toRow({ id, agent, cron, timezone, paused, next, last, problem }: Schedule): string[] {
  return [
    id,
    agent,
    `${cron} ${timezone}`,
    paused ? "paused" : (next ?? "never"),
    last ? `${last.at} ${last.outcome}` : "none",
    problem ?? "",
  ];
}
