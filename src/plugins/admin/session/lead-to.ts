import type { HttpEvent } from "../../../core/http/route.ts";
import { htmlAnswer } from "../answer.ts";
import { html } from "../views/html.ts";

/** A page that leads on by itself: redirects after forms would have to be allowed by the rules of all pages. */
export async function leadTo(
  event: HttpEvent,
  {
    to,
    said,
    cookies = [],
  }: { readonly to: string; readonly said: string; readonly cookies?: readonly string[] },
): Promise<Response> {
  const text = html`<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${to}"><title>${said}</title><p>${said} <a href="${to}">Continue</a></p></html>`;
  const response = await htmlAnswer(event, text.toString());
  for (const cookie of cookies) response.headers.append("set-cookie", cookie);
  return response;
}
