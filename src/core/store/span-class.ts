/** Digits of the numbers by which spans are counted. */
export const SPAN_DIGITS = 2;

/** The number by which a span is counted: a whole one of two digits, then zeros; the order of spans stays as it is. */
export function classOfSpan(span: number): number {
  const whole = Math.max(0, Math.floor(span));
  const unit = 10 ** Math.max(0, String(whole).length - SPAN_DIGITS);
  return Math.floor(whole / unit + 0.5) * unit;
}

/** The same as SQL. */
export function spanClassSql(span: string): string {
  const whole = `greatest(0, floor(${span}))`;
  const unit = `(10::float8 ^ greatest(0, length((${whole})::bigint::text) - ${SPAN_DIGITS}))`;
  // The greatest of nothing and a number is the number.
  return `(case when ${span} is not null then floor(${whole} / ${unit} + 0.5) * ${unit} end)`;
}
