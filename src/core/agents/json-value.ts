/**
 * Approximate limit in characters of JSON for one value: it is serialized and parsed in one go, while
 * everything else waits.
 */
const LONGEST = 16 * 1024 * 1024;

/**
 * The value as JSON represents it, `undefined` as `null`; throws if JSON would lose or change something,
 * naming the path. What is recorded must be the same when a run resumes.
 */
export function toJsonValue(value: unknown, what: string): unknown {
  const made = value === undefined ? null : copy(value, what, []);
  if (!isLongerThan(LONGEST, made)) return made;
  throw new TypeError(
    `${what} is longer than ${LONGEST / 1024 / 1024} MB of JSON, the limit for one value: split it, or store it in a file or a bucket and return its URL`,
  );
}

function copy(value: unknown, path: string, parents: object[]): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw refuse(path, `is ${value}`);
    // JSON has no -0.
    return value === 0 ? 0 : value;
  }
  if (typeof value !== "object") throw refuse(path, `is a ${typeof value}`);
  if (parents.includes(value)) throw refuse(path, "contains itself");
  parents.push(value);
  const made = Array.isArray(value) ? copyArray(value, path, parents) : copyObject(value, path, parents);
  parents.pop();
  return made;
}

function copyArray(value: readonly unknown[], path: string, parents: object[]): unknown[] {
  const made: unknown[] = [];
  for (let at = 0; at < value.length; at++) {
    if (value[at] === undefined) throw refuse(`${path}[${at}]`, "is undefined");
    made.push(copy(value[at], `${path}[${at}]`, parents));
  }
  return made;
}

function copyObject(value: object, path: string, parents: object[]): Record<string, unknown> {
  const prototype = Object.getPrototypeOf(value) as unknown;
  // Objects of another realm have another Object.prototype, whose own prototype is null.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain) throw refuse(path, `is a ${value.constructor?.name ?? "class instance"}`);
  const made: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    // JSON omits such a key; reading it gives undefined both before and after.
    if (item === undefined) continue;
    const kept = copy(item, `${path}.${key}`, parents);
    if (key !== "__proto__") made[key] = kept;
    else
      Object.defineProperty(made, key, { value: kept, enumerable: true, writable: true, configurable: true });
  }
  return made;
}

function refuse(path: string, why: string): TypeError {
  return new TypeError(
    `${path} ${why}, which JSON cannot represent: use strings, numbers, booleans, null, arrays and plain objects`,
  );
}

/**
 * Whether a value's JSON is longer than about `most` characters, without serializing it: reads no more than
 * that.
 */
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
