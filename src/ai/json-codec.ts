/** Values that JSON cannot represent, in what libraries pass to models and get from them. */
const BYTES = "~bytes";
const DATE = "~date";
const URL_TEXT = "~url";

/** A value as JSON can record it; `undefined` in objects is omitted, functions too. */
export function toRecord(value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object") return typeof value === "function" ? null : value;
  if (value instanceof Date) return { [DATE]: value.toISOString() };
  if (value instanceof URL) return { [URL_TEXT]: value.href };
  if (ArrayBuffer.isView(value)) return { [BYTES]: toBuffer(value).toString("base64") };
  if (hasJson(value)) return toRecord(value.toJSON());
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (Array.isArray(value)) return value.map(toRecord);
  const made: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(value)) {
    if (one !== undefined && typeof one !== "function" && key !== "__proto__") made[key] = toRecord(one);
  }
  return made;
}

/** The value that was recorded. */
export function fromRecord(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(fromRecord);
  const entries = Object.entries(value);
  const [only] = entries;
  if (entries.length === 1 && typeof only![1] === "string") {
    if (only![0] === DATE) return new Date(only![1]);
    if (only![0] === URL_TEXT) return new URL(only![1]);
    if (only![0] === BYTES) return new Uint8Array(Buffer.from(only![1], "base64"));
  }
  return Object.fromEntries(entries.map(([key, one]) => [key, fromRecord(one)]));
}

function hasJson(value: object): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function toBuffer(view: ArrayBufferView): Buffer {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}
