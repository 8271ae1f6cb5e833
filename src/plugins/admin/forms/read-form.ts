import type { H3Event } from "h3";
import { ServiceError } from "../../../core/errors.ts";
import { tooLarge } from "../../../core/http/failure.ts";

/** The fields of a form that a page of ours has sent. */
export async function readForm(event: H3Event, limit: number): Promise<URLSearchParams> {
  const type = event.req.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) {
    throw new ServiceError("unsupported_media_type", "This takes the fields of a form", {
      detail: "Send it as application/x-www-form-urlencoded, or use the JSON route under /admin/api.",
    });
  }
  if (Number(event.req.headers.get("content-length") ?? 0) > limit) throw tooLarge(limit);
  const text = await event.req.text();
  if (text.length > limit) throw tooLarge(limit);
  return new URLSearchParams(text);
}
