import { requestCommand } from "./job/request-command.ts";

/** `svc open`: a new link to the admin interface. */
export const open = requestCommand({
  usage: "open",
  summary: "Print a one-time sign-in link to the admin interface",
  async ask(client) {
    const { path, expires_at } = await client.post<{ path: string; expires_at: string }>(
      "/admin/api/sign-in-links",
      {},
    );
    return { url: new URL(client.url).origin + path, expires_at };
  },
  show: ({ url }) => url,
});
