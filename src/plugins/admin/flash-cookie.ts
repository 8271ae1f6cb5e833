import type { HttpEvent } from "../../core/http/route.ts";
import { isSecure, toCookie } from "./cookies.ts";
import { FLASH_COOKIE, type Flash, writeFlash } from "./flash.ts";
import type { AdminParts } from "./parts.ts";

/** The cookie that carries a message to the next page. */
export function flashCookie(parts: AdminParts, event: HttpEvent, kind: Flash["kind"], text: string): string {
  const secure = isSecure(event, parts);
  return toCookie(FLASH_COOKIE, writeFlash(kind, text), { secure, maxAge: 30 });
}
