/**
 * The value as JSON keeps it, `undefined` as `null`; throws where JSON would lose or change something, naming the
 * place. What is recorded must come back the same when a run is taken up again.
 */
export function toJsonValue(value: unknown, what: string): unknown {
  if (value === undefined) return null;
  check(value, what, new Set());
  return value === null || typeof value !== "object" ? value : (JSON.parse(JSON.stringify(value)) as unknown);
}

function check(value: unknown, path: string, parents: Set<object>): void {
  if (value === null || typeof value === "string" || typeof value === "boolean") return;
  if (typeof value === "number") {
    if (Number.isFinite(value)) return;
    throw refuse(path, `is ${value}`);
  }
  if (typeof value !== "object") throw refuse(path, `is a ${typeof value}`);
  if (parents.has(value)) throw refuse(path, "contains itself");
  parents.add(value);
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      if (value[at] === undefined) throw refuse(`${path}[${at}]`, "is undefined");
      check(value[at], `${path}[${at}]`, parents);
    }
  } else {
    checkObject(value, path, parents);
  }
  parents.delete(value);
}

function checkObject(value: object, path: string, parents: Set<object>): void {
  const prototype = Object.getPrototypeOf(value) as unknown;
  // Objects of another realm have another Object.prototype, whose own prototype is null.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain) throw refuse(path, `is a ${value.constructor?.name ?? "class instance"}`);
  for (const [key, item] of Object.entries(value)) {
    // JSON leaves such a key out; reading it gives undefined both before and after.
    if (item !== undefined) check(item, `${path}.${key}`, parents);
  }
}

function refuse(path: string, why: string): TypeError {
  return new TypeError(
    `${path} ${why}, which JSON cannot keep: give strings, numbers, booleans, null, arrays and plain objects`,
  );
}
