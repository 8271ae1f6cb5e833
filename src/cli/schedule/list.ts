import type { Schedule } from "../../core/models/schedule.ts";
import { requestCommand, showList } from "../job/request-command.ts";

/** `svc schedule list`: what is planned, and what came of it. */
export const list = requestCommand({
  usage: "list",
  summary: "List the schedules with their next and last times",
  examples: ["svc schedule list", "svc schedule list --json"],
  ask: (client) => client.get<Schedule[]>("/schedules"),
  show: (schedules, { context }) =>
    showList(schedules, { empty: "The service has no schedules.", header: HEADER, toRow }, context),
});

const HEADER = ["schedule", "agent", "cron", "next", "last", "problem"];

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
