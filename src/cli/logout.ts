import * as v from "valibot";
import { defineCommand } from "./command.ts";
import { CONNECTION_FLAGS, findService } from "./job/connection.ts";
import { StrangerError, UnreachableError } from "./job/service-client.ts";
import { readLogin, removeLogin } from "./logins.ts";

const { key: _key, ...FLAGS } = CONNECTION_FLAGS;

/** `svc logout`: ends the sign-in of `svc login`. */
export const logout = defineCommand({
  usage: "logout",
  summary: "Sign out of a service to which svc login has signed in",
  flags: v.object(FLAGS),
  examples: ["svc logout --url https://agents.example.com"],
  async run({ flags, context }) {
    const { url, origin, clientOf } = await findService(flags, context);
    const login = await readLogin(origin, context);
    // Here first: whatever the service says, this machine no longer has it.
    await removeLogin(origin, context);
    const ended = login !== undefined && (await end(clientOf(login.token, origin)));
    if (login && !ended)
      context.note(`The service does not answer: the sign-in ends there by itself at ${login.expires_at}.`);
    const said = login === undefined ? `Nobody was signed in to ${url}` : `Signed out of ${url}`;
    context.print(flags.json ? JSON.stringify({ url, was_signed_in: login !== undefined }, null, 2) : said);
    return 0;
  },
});

async function end(client: { delete(path: string): Promise<unknown> }): Promise<boolean> {
  try {
    await client.delete("/admin/api/sign-in/program");
    return true;
  } catch (error) {
    if (error instanceof UnreachableError) return false;
    // It has ended there before.
    if (error instanceof StrangerError) return true;
    throw error;
  }
}
