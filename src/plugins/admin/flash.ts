import * as v from "valibot";
import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";
import { EntityIdSchema } from "../../core/models/scalars.ts";
import { readCookie, toCookie } from "./cookies.ts";
import { pathTo } from "./views/pieces.ts";

export const FLASH_COOKIE = "svc-flash";

/** A message that the next page shows once: what a form did. */
export interface Flash {
  readonly kind: "good" | "bad";
  readonly icon: string;
  readonly text: string;
  /** Where a form undoes it. */
  readonly undo?: string | undefined;
}

/** What was deleted and can be restored. */
export interface DeletedThing {
  readonly kind: "jobs" | "cases";
  readonly id: string;
}

/** The cookie value that carries a message to the next page. */
function writeFlash(kind: Flash["kind"], text: string, undo: DeletedThing | undefined): string {
  return Buffer.from(JSON.stringify({ kind, text: text.slice(0, 300), undo })).toString("base64url");
}

/** The message for this page, if there is one. A forged cookie only affects the user who forged it. */
export function readFlash(event: HttpEvent, own: OwnAddress): Flash | undefined {
  const value = readCookie(event, own, FLASH_COOKIE);
  if (!value) return undefined;
  try {
    const { kind, text, undo } = JSON.parse(Buffer.from(value, "base64url").toString("utf8")) as Pick<
      Flash,
      "kind" | "text"
    > & { undo?: DeletedThing };
    const good = kind === "good";
    return {
      kind: good ? "good" : "bad",
      icon: good ? "check" : "close",
      text: String(text).slice(0, 300),
      undo: v.is(EntityIdSchema, undo?.id)
        ? pathTo(undo.kind === "cases" ? "deleted-cases" : "deleted", undo.id, "restore")
        : undefined,
    };
  } catch {
    return undefined;
  }
}

/** The cookie that carries a message to the next page; with what was deleted, a button that restores it. */
export function flashCookie(
  parts: OwnAddress,
  event: HttpEvent,
  kind: Flash["kind"],
  text: string,
  undo?: DeletedThing,
): string {
  return toCookie(event, parts, { name: FLASH_COOKIE, value: writeFlash(kind, text, undo), maxAge: 30 });
}
