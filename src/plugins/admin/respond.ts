import type { HttpEvent } from "../../core/http/route.ts";
import { type HtmlAnswer, htmlAnswer } from "./answer.ts";
import { toCookie } from "./cookies.ts";
import { FLASH_COOKIE, readFlash } from "./flash.ts";
import { negotiate } from "./negotiate.ts";
import type { CommonParts } from "./parts.ts";
import { createShell } from "./shell.ts";
import { readTimes, withTimes } from "./times.ts";
import { offeredTo, viewerOf } from "./viewer.ts";

type State = Record<string, unknown>;
type Made<T> = () => T | Promise<T>;

/** One resource in three forms; only the requested one is built. */
export interface Resource {
  readonly json: Made<unknown>;
  /** What the templates show. */
  readonly state: Made<State>;
  /** Template of the part that is replaced in an open page. */
  readonly fragment: string;
  /** Template of the whole page. */
  readonly page: string;
}

/** Responds with the form of a resource that the client accepts. */
export async function respond(
  parts: CommonParts,
  event: HttpEvent,
  route: "page" | "api",
  resource: Resource,
  answer: HtmlAnswer = {},
): Promise<unknown> {
  const wanted = negotiate(event, route);
  if (wanted === "json") return resource.json();
  const state = await resource.state();
  if (wanted === "page") return renderPage(parts, event, { template: resource.page, state }, answer);
  return renderFragment(parts, event, { template: resource.fragment, state }, answer);
}

/** A whole page. */
export async function renderPage(
  parts: CommonParts,
  event: HttpEvent,
  { template, state }: { template: string; state: State },
  answer: HtmlAnswer = {},
): Promise<Response> {
  const flash = readFlash(event, parts);
  const shell = await createShell(parts, event, flash);
  const text = await parts.renderer.render(`pages/${template}`, {
    shell,
    may: offeredTo(viewerOf(event)),
    ...state,
  });
  const response = await htmlAnswer(event, withTimes(text, readTimes(event, parts)), {
    ...answer,
    headers: { ...refreshHeader(event), ...answer.headers },
  });
  if (flash) {
    const gone = toCookie(event, parts, { name: FLASH_COOKIE, value: "", maxAge: 0 });
    response.headers.append("set-cookie", gone);
  }
  return response;
}

/** A part of a page. */
export async function renderFragment(
  parts: CommonParts,
  event: HttpEvent,
  { template, state }: { template: string; state: State },
  answer: HtmlAnswer = {},
): Promise<Response> {
  const text = await parts.renderer.render(`fragments/${template}`, {
    may: offeredTo(viewerOf(event)),
    ...state,
  });
  return htmlAnswer(event, withTimes(text, readTimes(event, parts)), answer);
}

/** `?refresh=10` reloads a page by itself: live pages for browsers that run no script. */
function refreshHeader(event: HttpEvent): Record<string, string> {
  const seconds = Number(event.url.searchParams.get("refresh"));
  return Number.isInteger(seconds) && seconds >= 5 && seconds <= 3600 ? { refresh: String(seconds) } : {};
}
