import * as v from "valibot";
import { ServiceError } from "../../../core/base/errors.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../../core/http/route.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts } from "../parts.ts";
import { openSession } from "./insert-session.ts";
import { endSession } from "./list.ts";
import { leaveForProvider } from "./person-routes.ts";
import { leadToProgram, ProgramSchema, signInEnded, toSignIn, valueIn } from "./program.ts";
import { showProgram } from "./sign-in-page.ts";

const PROGRAM_PATH = "/admin/sign-in/program";
const page = { needs: "nothing", tag: "Admin", hidden: true } as const;

const TokenSchema = v.object({ token: v.string(), expires_at: v.pipe(v.string(), v.isoTimestamp()) });
const EndedSchema = v.object({ ended: v.boolean() });
const ExchangeSchema = v.union([
  v.object({ code: v.pipe(v.string(), v.maxLength(2000)), verifier: v.pipe(v.string(), v.maxLength(200)) }),
  v.object({ link: v.pipe(v.string(), v.maxLength(100)), program: ProgramSchema.entries.program }),
]);

/** Signing in with a program, such as `svc login`: the code flow with PKCE, on a port of the person's machine. */
export function programRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    defineRoute({
      ...page,
      method: "GET",
      path: PROGRAM_PATH,
      auth: "session",
      summary: "Ask whether a program may act as the person",
      query: ProgramSchema,
      responses: { 200: { description: "A page with a button" } },
      handler: ({ query, event, caller }) => showProgram(parts, event, { program: query, caller }),
    }),
    defineRoute({
      ...page,
      method: "POST",
      path: PROGRAM_PATH,
      auth: "session",
      summary: "Let a program act as the person",
      responses: { 200: { description: "Leads to the program" } },
      handler: async ({ event, caller }) => {
        const form = Object.fromEntries(await readForm(event));
        const checked = v.safeParse(ProgramSchema, form);
        if (!checked.success)
          throw new ServiceError("invalid_request", "This form is not complete", {
            detail: "Sign in again: svc login.",
          });
        const program = checked.output;
        const own = await parts.sessions.ofBrowser(event);
        const key = caller.kind === "key" ? event.req.headers.get("x-api-key") : null;
        if (own === undefined && key === null) {
          throw new ServiceError("invalid_request", "A program cannot sign in as you here", {
            detail:
              "Who comes through a proxy has no session of this service: make a key for the program (svc access add).",
          });
        }
        // The provider gives each session tokens of its own: many are valid once.
        if (own?.person !== undefined && parts.provider) return leaveForProvider(parts, event, { program });
        const { access } = caller;
        const owner = own ? { like: own } : { ...(key !== null && { key }), ...(access && { access }) };
        const opened = (await openSession(parts, event, {
          ...owner,
          program: program.program,
          unfetched: true,
        }))!;
        return leadToProgram(parts, event, { opened, program });
      },
    }),
    defineRoute({
      ...page,
      method: "POST",
      path: "/admin/api/sign-in/program",
      auth: "none",
      summary: "Fetch the sign-in of a person for a program",
      description:
        "With the code that the person's browser brought to the program, within a minute, and the secret whose SHA-256 began the sign-in; or with the token of a one-time link.",
      body: ExchangeSchema,
      responses: { 200: { description: "What the program sends as a key", schema: TokenSchema } },
      handler: ({ body, event }) =>
        "link" in body ? exchangeLink(parts, event, body) : exchangeCode(parts, body),
    }),
    defineRoute({
      ...page,
      method: "DELETE",
      path: "/admin/api/sign-in/program",
      auth: "session",
      summary: "End the sign-in of a program",
      description: "Of the program that asks.",
      responses: { 200: { description: "Done", schema: EndedSchema } },
      handler: async ({ event, caller }) => {
        const current = parts.sessions.current(event);
        const ended = current !== undefined && (await endSession(parts, current, caller));
        return { ended };
      },
    }),
  ];
}

/** A request that is sent again gets nothing, as in the code flow of OAuth: the program signs in again. */
async function exchangeCode(
  parts: AdminParts,
  body: { readonly code: string; readonly verifier: string },
): Promise<v.InferOutput<typeof TokenSchema>> {
  const coded = valueIn(parts, body);
  if (!(await parts.sessions.fetch(coded.value))) throw signInEnded("This code was already used");
  return toSignIn(coded);
}

async function exchangeLink(
  parts: AdminParts,
  event: HttpEvent,
  { link, program }: { readonly link: string; readonly program: string },
): Promise<v.InferOutput<typeof TokenSchema>> {
  const opened = await openSession(parts, event, { program }, ({ tx }) => parts.links.take(tx, link));
  if (opened === undefined) throw signInEnded("This link was already used or has expired");
  return toSignIn({ value: opened.value, until: opened.row.until });
}
