/** Whether a value's JSON is longer than `most` characters, about, without writing it out: looks at no more than that. */
export function isLongerThan(most: number, value: unknown): boolean {
  let left = most;
  const fits = (one: unknown): boolean => {
    left -= typeof one === "string" ? one.length + 3 : 4;
    if (left < 0) return false;
    if (one === null || typeof one !== "object") return true;
    if (Array.isArray(one)) return one.every(fits);
    for (const key in one) {
      left -= key.length + 3;
      if (!fits((one as Record<string, unknown>)[key])) return false;
    }
    return true;
  };
  return !fits(value);
}
