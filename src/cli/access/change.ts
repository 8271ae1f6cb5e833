import * as v from "valibot";
import type { Access } from "../../core/models/access.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { requestCommand } from "../job/request-command.ts";
import { printMade } from "./add.ts";

/** `svc access rotate`: another key in place of one. */
export const rotate = defineCommand({
  usage: "rotate <name>",
  summary: "Make another key in place of one, which works for another day",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc access rotate billing"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const path = `/access/${encodeURIComponent(args[0]!)}/rotate`;
    const made = await client.post<{ key: string; access: Access }>(path, {});
    printMade(made, { isJson: flags.json === true, context });
    return 0;
  },
});

/** `svc access rotate-signing-key`: another key that the service signs with. */
export const rotateSigningKey = requestCommand({
  usage: "rotate-signing-key",
  summary:
    "Replace the key that the service signs cards and checkpoints with; the former one still verifies them",
  examples: ["svc access rotate-signing-key"],
  ask: (client) => client.post<{ kid: string }>("/access/signing-keys", {}),
  show: ({ kid }) => `The service signs with the key ${kid}`,
});

/** `svc access remove`: a key no longer works. */
export const remove = requestCommand({
  usage: "remove <name>",
  summary: "Remove a key: it no longer works anywhere, within seconds",
  examples: ["svc access remove billing"],
  ask: (client, { args }) => client.delete<Access>(`/access/${encodeURIComponent(args[0]!)}`),
  show: ({ name }) => `The key of "${name}" is removed`,
});
