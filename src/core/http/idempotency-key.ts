import type { GivenKey } from "../entities/keyed-requests.ts";
import { invalid } from "./check.ts";
import type { HttpEvent } from "./route.ts";

/** Value of the `Idempotency-Key` header, if there is one. */
export function readIdempotencyKey(event: HttpEvent): string | undefined {
  const key = event.req.headers.get("idempotency-key");
  if (key === null) return undefined;
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return key;
  throw invalid("headers", "Idempotency-Key must be 1 to 255 visible ASCII characters");
}

/** The key of a request to a job, together with what that asks for; `undefined` without a key. */
export function readGivenKey(event: HttpEvent, ...content: readonly unknown[]): GivenKey | undefined {
  const key = readIdempotencyKey(event);
  return key === undefined ? undefined : { key, content, after: 0 };
}

/** What the documentation says of routes that accept a key. */
export const KEY_NOTE = "With an `Idempotency-Key` header, repeating the request does nothing more.";
