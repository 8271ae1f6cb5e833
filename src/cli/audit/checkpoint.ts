import * as v from "valibot";
import type { Checkpoint } from "../../core/access/checkpoint.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "../events/connection.ts";

const { json: _, ...flags } = CONNECTION_FLAGS;

/** `svc audit checkpoint`: the end of the log, signed. */
export const checkpoint = defineCommand({
  usage: "checkpoint",
  summary: "Print the end of the audit log, signed by the service, to keep somewhere else",
  flags: v.object(flags),
  examples: ["svc audit checkpoint > checkpoint.json"],
  async run({ flags, context }) {
    const client = await connectToAdmin(flags, context);
    const made = await client.get<Checkpoint>("/admin/api/audit/checkpoint");
    context.print(JSON.stringify({ checkpoint: made }));
    return 0;
  },
});
