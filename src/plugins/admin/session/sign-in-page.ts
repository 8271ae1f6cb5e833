import { hash } from "node:crypto";
import { type Caller, nameOf } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import { htmlAnswer } from "../answer.ts";
import type { AdminParts } from "../parts.ts";
import { readTheme } from "../shell.ts";
import type { Program } from "./program.ts";

/** What a page for people who are not signed in needs. */
export type PageParts = Pick<
  AdminParts,
  "renderer" | "options" | "assets" | "clients" | "state" | "provider"
>;

export interface SignInView {
  readonly status: number;
  /** Where to redirect after signing in. */
  readonly next: string;
  readonly problem: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The page that asks for the key. It shows only the service's title. */
export async function showSignIn(
  parts: PageParts,
  event: HttpEvent,
  { status, next, problem, headers }: SignInView,
): Promise<Response> {
  const { sessionHours, sessionIdleMinutes } = parts.options;
  const idle = sessionIdleMinutes > 0 ? `, or ${countOf(sessionIdleMinutes, "minute")} without use` : "";
  const lasts = `${countOf(sessionHours, "hour")}${idle}`;
  const person = parts.provider && {
    label: parts.provider.identity.label,
    href: `/admin/sign-in/person?next=${encodeURIComponent(next)}`,
  };
  const state = { shell: bareShell(parts, event), token: undefined, lasts, next, problem, person };
  const text = await parts.renderer.render("pages/sign-in", state);
  return htmlAnswer(event, text, { status, headers });
}

/** The page that a one-time link leads to: its button posts the token. */
export async function showLink(parts: PageParts, event: HttpEvent, token: string): Promise<Response> {
  const state = { shell: bareShell(parts, event), token, next: "", problem: "", person: undefined };
  return htmlAnswer(event, await parts.renderer.render("pages/sign-in", state));
}

/** The page that asks whether a program may act as the person. */
export async function showProgram(
  parts: PageParts,
  event: HttpEvent,
  { program, caller }: { readonly program: Program; readonly caller: Caller },
): Promise<Response> {
  const who = { name: nameOf(caller), role: caller.role ?? "viewer" };
  const state = { shell: bareShell(parts, event), asks: program, check: checkOf(program), who };
  return htmlAnswer(event, await parts.renderer.render("pages/program", state));
}

/** What the page and the program show, so that people see that they belong together. */
function checkOf({ challenge }: Program): string {
  const digits = hash("sha256", challenge, "hex").slice(0, 8).toUpperCase();
  return `${digits.slice(0, 4)}-${digits.slice(4)}`;
}

function bareShell(parts: PageParts, event: HttpEvent) {
  const { options, assets } = parts;
  return { title: options.title, theme: readTheme(event, parts), assets: assets.urls };
}

const ADMIN = /^\/admin(\/|\?|$)/;

/** A path of the admin interface from a form; anything else becomes the dashboard. */
export function localPath(path: string | null): string {
  if (path === null || !ADMIN.test(path) || /[\\\p{C}]/u.test(path)) return "/admin/";
  // Dots in it may lead elsewhere, and to another host where two slashes follow them.
  const { pathname, search } = new URL(path, "http://local");
  return ADMIN.test(pathname) ? pathname + search : "/admin/";
}
