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

/** `svc access rotate-signing-key`: another key that the service signs with. */
export const rotateSigningKey = defineCommand({
  usage: "rotate-signing-key",
  summary:
    "Replace the key that the service signs cards and checkpoints with; the former one still verifies them",
  flags,
  examples: ["svc access rotate-signing-key"],
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const key = await client.post<{ kid: string }>("/access/signing-keys", {});
    context.print(flags.json ? JSON.stringify(key, null, 2) : `The service signs with the key ${key.kid}`);
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
