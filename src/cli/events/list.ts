import * as v from "valibot";
import { needed, option } from "../../core/base/option.ts";
import type { ControlCounts, ControlStatus, OutboxMessage } from "../../core/delivery/control-system.ts";
import { defineCommand } from "../command.ts";
import { renderTable } from "../table.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "./connection.ts";

const flags = v.object({
  state: option.one(["waiting", "dead"], "only messages in this state"),
  limit: v.optional(needed.whole("how many, newest first", 1, 100), 50),
  ...CONNECTION_FLAGS,
});

/** `svc events list`: waiting messages and dead letters. */
export const list = defineCommand({
  usage: "list",
  summary: "List waiting messages and dead letters, and the state of deliveries",
  flags,
  examples: ["svc events list", "svc events list --state dead --json"],
  async run({ flags, context }) {
    const client = await connectToAdmin(flags, context);
    const query = new URLSearchParams({
      limit: String(flags.limit),
      ...(flags.state && { state: flags.state }),
    });
    const [page, status] = await Promise.all([
      client.get<{ items: OutboxMessage[]; total: number }>(`/admin/api/events?${query}`),
      client.get<ControlStatus & { counts: ControlCounts }>("/admin/api/events/status"),
    ]);
    if (flags.json) {
      context.print(JSON.stringify({ ...page, status }, null, 2));
      return 0;
    }
    const { waiting, dead, delivered } = status.counts;
    context.print(`${waiting} waiting, ${dead} dead, ${delivered} delivered since the start`);
    for (const { name, state, last_error } of status.targets) {
      context.print(`  ${name}: ${state}${state === "ok" ? "" : ` (${last_error ?? "no response yet"})`}`);
    }
    if (status.mode === "local")
      context.print("  No account is configured: nothing is sent to a control system.");
    if (page.items.length > 0) {
      context.print(
        renderTable(
          ["id", "state", "type", "of", "attempts", "last response"],
          page.items.map(toRow),
          context.paint?.print,
        ),
      );
    }
    if (page.total > page.items.length) context.print(`… and ${page.total - page.items.length} more`);
    return 0;
  },
});

function toRow({ id, state, type, stream, attempts, error }: OutboxMessage): string[] {
  const said = (error ?? "").replace(/\p{Cc}/gu, " ").slice(0, 60);
  return [id, state, type, stream, String(attempts), said];
}
