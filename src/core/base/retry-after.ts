type Header = string | null | undefined;

/**
 * What a `Retry-After` header says: milliseconds, or a time (RFC 9110, section 10.2.3). `undefined` where there is none,
 * or where it is neither.
 */
export function parseRetryAfter(header: Header): number | Date | undefined {
  if (!header) return undefined;
  if (/^\s*\d+(?:\.\d+)?\s*$/.test(header)) return Number(header) * 1000;
  // Only dates with a weekday or a year first: `Date` takes much else for a date.
  const time = /^\s*(?:[A-Z][a-z]{2,8},|\d{4}-)/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(time) ? undefined : new Date(time);
}

/** Milliseconds to wait by a `Retry-After` header, 0 where its time is over. */
export function readRetryAfter(header: Header, now: Date): number | undefined {
  const after = parseRetryAfter(header);
  return after instanceof Date ? Math.max(0, after.getTime() - now.getTime()) : after;
}
