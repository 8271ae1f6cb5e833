import * as v from "valibot";
import type { Access } from "../../core/models/access.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { renderTable } from "../table.ts";

/** `svc access list`: who has a key, and what it may do. */
export const list = defineCommand({
  usage: "list",
  summary: "List the keys: what each may do, until when, and when it was last used",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc access list", "svc access list --json"],
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const keys = await client.get<Access[]>("/access");
    if (flags.json) context.print(JSON.stringify(keys, null, 2));
    else if (keys.length === 0) context.print("There are no keys except the API key.");
    else {
      const header = ["name", "role", "agents", "workspace", "expires", "last used", "id"];
      context.print(renderTable(header, keys.map(toRow), context.paint?.print));
    }
    return 0;
  },
});

function toRow({ id, name, role, agents, workspace, expires_at, used_at, source }: Access): string[] {
  const used = source === "declared" ? "not recorded" : (used_at ?? "never");
  return [name, role, agents?.join(", ") ?? "all", workspace ?? "all", expires_at ?? "never", used, id];
}
