import * as v from "valibot";
import type { Access } from "../../core/models/access.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { printMade } from "./add.ts";

const flags = v.object(CONNECTION_FLAGS);

/** `svc access rotate`: another key in place of one. */
export const rotate = defineCommand({
  usage: "rotate <name>",
  summary: "Make another key in place of one, which works for another day",
  flags,
  examples: ["svc access rotate billing"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const path = `/access/${encodeURIComponent(args[0]!)}/rotate`;
    const made = await client.post<{ key: string; access: Access }>(path, {});
    printMade(made, { isJson: flags.json === true, context });
    return 0;
  },
});

/** `svc access remove`: a key no longer works. */
export const remove = defineCommand({
  usage: "remove <name>",
  summary: "Remove a key: it no longer works anywhere, within seconds",
  flags,
  examples: ["svc access remove billing"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const access = await client.delete<Access>(`/access/${encodeURIComponent(args[0]!)}`);
    context.print(flags.json ? JSON.stringify(access, null, 2) : `The key of "${access.name}" is removed`);
    return 0;
  },
});
