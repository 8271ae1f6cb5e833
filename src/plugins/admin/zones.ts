import * as v from "valibot";

/** IANA name of a time zone, such as `Europe/Berlin`. */
export const ZoneSchema = v.pipe(v.string(), v.check(isZone, "must be a time zone such as Europe/Berlin"));

export function isZone(name: string): boolean {
  if (!/^[A-Za-z0-9_+/-]{1,60}$/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}

/** A time in milliseconds; a day such as `2026-01-31` is the time at which it begins in a zone. */
export function startOf(moment: string, zone = "UTC"): number {
  const at = Date.parse(moment);
  if (!/^\d{4}-\d\d-\d\d$/.test(moment)) return at;
  // The offset at midnight UTC may be another one than that at the local midnight, which a change of the clocks may skip.
  const first = at - offsetAt(at, zone);
  const second = at - offsetAt(first, zone);
  const dates = [first, second].filter((time) => time + offsetAt(time, zone) >= at);
  return dates.length === 0 ? second : Math.min(...dates);
}

/** How far the clocks of a zone are ahead of UTC at a time, in milliseconds. */
function offsetAt(at: number, zone: string): number {
  const format = new Intl.DateTimeFormat("en", {
    ...{ timeZone: zone, hourCycle: "h23" },
    ...{
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    },
  });
  const of = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  return (
    Date.UTC(of.year!, of.month! - 1, of.day, of.hour, of.minute, of.second) - Math.floor(at / 1000) * 1000
  );
}
