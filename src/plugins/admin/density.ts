import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";
import { readCookie } from "./cookies.ts";

export const DENSITY_COOKIE = "svc-density";

/** How close the rows of lists are to each other. */
export type Density = "comfortable" | "compact";

/** What a cookie or a form says. */
export function toDensity(given: string | null | undefined): Density {
  return given === "compact" ? given : "comfortable";
}

/** The setting of a browser. */
export function readDensity(event: HttpEvent, own: OwnAddress): Density {
  return toDensity(readCookie(event, own, DENSITY_COOKIE));
}
