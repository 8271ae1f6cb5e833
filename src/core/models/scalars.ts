import * as v from "valibot";

/** Entity identifier: 1 to 200 letters, digits, `.`, `_`, `-`, not starting with a dot. */
export const EntityIdSchema = v.pipe(
  v.string(),
  v.regex(
    /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/,
    "must be 1 to 200 characters of letters, digits, '.', '_', '-', not starting with a dot",
  ),
);

/** ISO 8601 timestamp as stored: UTC with milliseconds and `Z`. */
export const TimestampSchema = v.pipe(v.string(), v.isoTimestamp("must be an ISO 8601 timestamp"));

const NO_TIMESTAMP = "must be an ISO 8601 timestamp, for example 2026-01-31T09:30:00.000Z";

/** ISO 8601 timestamp as clients send it: the offset may be missing (then UTC) or written out. */
export const ClientTimestampSchema = v.pipe(
  v.string(),
  v.regex(/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/, NO_TIMESTAMP),
  v.check((text) => !Number.isNaN(Date.parse(text)), NO_TIMESTAMP),
  v.check(isOnCalendar, "must be a date that exists"),
);

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** JavaScript reads 30 February as 2 March. */
function isOnCalendar(text: string): boolean {
  const [year, month, day] = [Number(text.slice(0, 4)), Number(text.slice(5, 7)), Number(text.slice(8, 10))];
  if (!(year > 0 && day > 0)) return false;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (month === 2 && isLeap ? 29 : (DAYS[month - 1] ?? 0));
}

/** Text with at least one character that is not white space. */
export const NameSchema = v.pipe(v.string(), v.regex(/\S/, "must not be empty"), v.maxLength(500));

/** Address of an HTTP service. */
export const HttpUrlSchema = v.pipe(
  v.string(),
  v.regex(/^https?:\/\//, "must start with http:// or https://"),
  v.url("must be a URL"),
);

/** A map of JSON values. */
export const JsonMapSchema = v.record(v.string(), v.unknown());

/** `None` of the specification: absent or `null`, always present as `null` in responses. */
export function optional<S extends v.GenericSchema>(schema: S) {
  return v.optional(v.nullable(schema), null);
}
