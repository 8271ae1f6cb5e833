import { ServiceError } from "../../../core/base/errors.ts";
import { assertUtf8 } from "../../../core/http/query.ts";
import type { HttpEvent } from "../../../core/http/route.ts";

/**
 * The fields of a form that one of our pages has sent; its size was checked before the handler was called.
 */
export async function readForm(event: HttpEvent): Promise<URLSearchParams> {
  const type = event.req.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) {
    throw new ServiceError("unsupported_media_type", "This route expects form fields", {
      detail: "Send it as application/x-www-form-urlencoded, or use the JSON route under /admin/api.",
    });
  }
  const text = await event.req.text();
  assertUtf8(text, "form");
  return new URLSearchParams(text);
}
