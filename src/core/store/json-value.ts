import { ServiceError } from "../base/errors.ts";

/**
 * Serializes a value, before anything is reserved for it, with an error that names what could not be stored.
 */
export function toJson(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new ServiceError("invalid_request", `${what} cannot be stored as JSON: ${reason(cause)}`, {
      detail: "Store plain JSON values: no cycles, no BigInt, not nested thousands of levels deep.",
      cause,
    });
  }
  if (text !== undefined) return text;
  throw new ServiceError("invalid_request", `${what} cannot be stored as JSON: it is undefined`, {
    detail: "Store plain JSON values.",
  });
}

/** A copy of a value that came from JSON. */
function cloneJson<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(cloneJson) as T;
  return cloneFields({ ...value });
}

/** Replaces the field values of an object that came from JSON by copies. */
export function cloneFields<T extends object>(value: T): T {
  for (const key in value) {
    const field = value[key];
    // Each key is an own one, also `__proto__`: setting it sets no prototype.
    if (typeof field === "object" && field !== null)
      value[key] = (Array.isArray(field) ? field.map(cloneJson) : cloneFields({ ...field })) as T[typeof key];
  }
  return value;
}

/** Freezes the field values of an object that came from JSON, deeply. */
export function freezeFields<T extends object>(value: T): T {
  for (const key in value) {
    const field = value[key];
    if (typeof field === "object" && field !== null) Object.freeze(freezeFields(field));
  }
  return value;
}

/** Freezes a value that came from JSON, deeply. */
export function freezeJson<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  return Object.freeze(freezeFields(value));
}

/**
 * Whether a value has the same JSON as `known`, which came from JSON and is frozen; "no" may be wrong, "yes"
 * never is.
 */
export function isSameJson(value: unknown, known: unknown): boolean {
  if (typeof value !== "object" || value === null) return value === known && !Object.is(value, -0);
  if (value === known) return true;
  if (typeof known !== "object" || known === null) return false;
  if (Array.isArray(value)) return Array.isArray(known) && isSameArray(value, known);
  return isPlain(value) && !Array.isArray(known) && isSameObject(value, known as Record<string, unknown>);
}

/** Whether a value is a plain object, which JSON serializes field by field. */
export function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isSameArray(value: readonly unknown[], known: readonly unknown[]): boolean {
  return value.length === known.length && isSameStart(value, known);
}

/** Whether the first elements of an array have the same JSON as all of `known`. */
export function isSameStart(value: readonly unknown[], known: readonly unknown[]): boolean {
  if (Object.getPrototypeOf(value) !== Array.prototype || value.length < known.length) return false;
  for (let at = 0; at < known.length; at++) if (!isSameJson(value[at], known[at])) return false;
  return true;
}

function isSameObject(value: Record<string, unknown>, known: Record<string, unknown>): boolean {
  const keys = Object.keys(known);
  let at = 0;
  for (const key in value) if (key !== keys[at++] || !isSameJson(value[key], known[key])) return false;
  return at === keys.length;
}

function reason(cause: unknown): string {
  if (cause instanceof RangeError) return "it is nested too deeply";
  return cause instanceof Error ? cause.message.split("\n")[0]! : String(cause);
}
