import { hash, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import * as v from "valibot";
import { ClientError } from "../client/client-error.ts";
import { option } from "../core/base/option.ts";
import { listenForCode } from "./browser-code.ts";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { openBrowser } from "./dev/open-browser.ts";
import { CliError, UsageError } from "./errors.ts";
import { CONNECTION_FLAGS, findService } from "./job/connection.ts";
import type { ServiceClient } from "./job/service-client.ts";
import { type Login, writeLogin } from "./logins.ts";

const { key: _key, ...FLAGS } = CONNECTION_FLAGS;
const EXCHANGE = "/admin/api/sign-in/program";

/** `svc login`: the person at this machine signs in to a service, as in the admin interface. */
export const login = defineCommand({
  usage: "login",
  summary: "Sign in to a service by the browser, so that the commands on this machine act as you",
  flags: v.object({
    ...FLAGS,
    link: option.text("sign in with a one-time link, as svc open prints it, without a browser", "url"),
  }),
  examples: [
    "svc login --url https://agents.example.com",
    "svc login --link 'https://…/admin/sign-in?token=…'",
  ],
  async run({ flags, context }) {
    const { link } = flags;
    const token = link === undefined ? undefined : tokenIn(link);
    const url = flags.url ?? (link === undefined ? undefined : new URL(link).origin);
    const service = await findService({ ...flags, url }, context);
    const program = `svc on ${hostname().slice(0, 60)}`;
    const client = service.clientOf(undefined, service.origin);
    const given =
      token === undefined
        ? await byBrowser(client, { origin: service.origin, program, context })
        : await exchange(client, { link: token, program });
    await writeLogin({ origin: service.origin, ...given }, context);
    const who = await service.clientOf(given.token).get<{ name: string; role: string }>("/whoami");
    if (flags.json)
      context.print(JSON.stringify({ url: service.url, ...who, until: given.expires_at }, null, 2));
    else context.print(`Signed in to ${service.url} as ${who.name} (${who.role}) until ${given.expires_at}`);
    return 0;
  },
});

/** The code flow with PKCE: the code alone is of no use to others who see the address or the port. */
async function byBrowser(
  client: ServiceClient,
  {
    origin,
    program,
    context,
  }: { readonly origin: string; readonly program: string; readonly context: CliContext },
): Promise<Omit<Login, "origin">> {
  const verifier = randomBytes(32).toString("base64url");
  const challenge = hash("sha256", verifier, "base64url");
  const state = randomBytes(16).toString("base64url");
  const browser = await listenForCode(state);
  try {
    const query = new URLSearchParams({ port: String(browser.port), challenge, state, program });
    const address = `${origin}/admin/sign-in/program?${query}`;
    const check = hash("sha256", challenge, "hex").slice(0, 8).toUpperCase();
    context.note(`Sign in at ${address}`);
    context.note(`The page shows ${check.slice(0, 4)}-${check.slice(4)}. Waiting for it.`);
    const problem = context.interactive ? await openBrowser(address, context.env) : undefined;
    if (problem !== undefined) context.note(`The browser could not be opened: ${problem}`);
    return await exchange(client, { code: await browser.code, verifier });
  } finally {
    browser.close();
  }
}

async function exchange(client: ServiceClient, given: object): Promise<Omit<Login, "origin">> {
  try {
    return await client.post(EXCHANGE, given);
  } catch (error) {
    const { cause } = error as Error;
    if (!(cause instanceof ClientError) || cause.status !== 401) throw error;
    throw new CliError(cause.message, { ...(cause.detail !== undefined && { detail: cause.detail }), cause });
  }
}

function tokenIn(link: string): string {
  const token = URL.canParse(link) ? new URL(link).searchParams.get("token") : null;
  if (token) return token;
  throw new UsageError(`"${link}" is not a one-time link`, "Use one that svc open prints.");
}
