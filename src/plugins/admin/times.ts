import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";
import { readCookie } from "./cookies.ts";
import { stampsIn } from "./views/format.ts";
import { isZone } from "./zones.ts";

export const TIMES_COOKIE = "svc-times";

/** How a reader wants times. */
export interface TimeSetting {
  readonly form: "relative" | "absolute";
  readonly zone: "local" | "utc";
  /** IANA name of the reader's own zone, as the page's script reported it; empty if it is not known. */
  readonly local: string;
}

/** What a cookie or a form says; what is missing or invalid is as in `fallback`. */
export function toTimeSetting(
  given: Readonly<Record<keyof TimeSetting, string | null | undefined>>,
  fallback: TimeSetting = { form: "relative", zone: "local", local: "" },
): TimeSetting {
  const { form, zone, local } = given;
  return {
    form: form === "relative" || form === "absolute" ? form : fallback.form,
    zone: zone === "local" || zone === "utc" ? zone : fallback.zone,
    local: local && isZone(local) ? local : fallback.local,
  };
}

/** The setting of a browser. */
export function readTimes(event: HttpEvent, own: OwnAddress): TimeSetting {
  const [form, zone, local] = (readCookie(event, own, TIMES_COOKIE) ?? "").split(".");
  return toTimeSetting({ form, zone, local });
}

/** The cookie's value. */
export function writeTimes({ form, zone, local }: TimeSetting): string {
  return [form, zone, local].join(".");
}

/** The zone in which the service shows times; the page's script knows the local one anyway. */
export function zoneOf({ zone, local }: TimeSetting): string {
  return zone === "local" && local !== "" ? local : "UTC";
}

const TIME = /<time([^>]*?) datetime="([^"]*)" title="[^"]*" data-(relative|until)([^>]*)>([^<]*)<\/time>/g;
const PLAIN = /(<(?:time|text)[^>]*? data-(clock|tick|day)="([^"]*)"[^>]*>)[^<]*/g;
const ZONE = 'name="zone" value=""';
const LABEL = /(data-from="([^"]*)"[^>]*?(?: aria-label="|>))\d{4}-\d\d-\d\d \d\d:\d\d UTC/g;

/**
 * A page with its times as the reader wants them; templates write them relative, and in UTC. All of them are in our own
 * tags: what others wrote has no tags.
 */
export function withTimes(page: string, setting: TimeSetting): string {
  const zone = zoneOf(setting);
  const isAbsolute = setting.form === "absolute";
  if (zone === "UTC" && !isAbsolute) return page;
  const stamp = stampsIn(zone);
  return page
    .replaceAll(ZONE, () => `name="zone" value="${zone}"`)
    .replace(TIME, (_, before, iso, kind, rest, text) => {
      const isPoint = kind === "relative";
      const shown = !isAbsolute ? text : isPoint ? stamp(iso) : `${text} (${stamp(iso)})`;
      const title = isAbsolute && isPoint ? text : stamp(iso);
      return `<time${before} datetime="${iso}" title="${title}" data-${kind}${rest}>${shown}</time>`;
    })
    .replace(PLAIN, (whole: string, tag: string, kind: string, iso: string) => {
      if (kind === "clock") return `${tag}${stamp(iso, "clock")}`;
      return isAbsolute ? `${tag}${stamp(iso, kind === "tick" ? "second" : "day")}` : whole;
    })
    .replace(LABEL, (_, before: string, iso: string) => `${before}${stamp(iso, "minute")}`);
}
