import * as v from "valibot";
import { defineCommand } from "./command.ts";
import { CONNECTION_FLAGS, connect } from "./job/connection.ts";

/** `svc open`: a new link to the admin interface. */
export const open = defineCommand({
  usage: "open",
  summary: "Print a one-time sign-in link to the admin interface",
  flags: v.object(CONNECTION_FLAGS),
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const { origin } = new URL(client.url);
    const link = await client.post<{ path: string; expires_at: string }>("/admin/api/sign-in-links", {});
    const url = origin + link.path;
    context.print(flags.json ? JSON.stringify({ url, expires_at: link.expires_at }, null, 2) : url);
    return 0;
  },
});
