/** A JSON value with the keys of its objects in order: equal values have the same JSON then. */
export function inOrder(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(inOrder);
  if ("toJSON" in value) return value;
  const keys = Object.keys(value).sort();
  // An object without a prototype can have a key "__proto__", and costs more to fill and to write out.
  const sorted = (keys.includes("__proto__") ? Object.create(null) : {}) as Record<string, unknown>;
  for (const key of keys) {
    const one = (value as Record<string, unknown>)[key];
    sorted[key] = typeof one === "object" ? inOrder(one) : one;
  }
  return sorted;
}
