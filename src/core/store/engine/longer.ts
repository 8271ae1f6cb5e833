/** A longer copy of a typed array, with zeros after the old end. */
export function longer<T extends Uint8Array | Uint32Array>(numbers: T, needed: number, factor = 1.5): T {
  const length = Math.max(64, needed, Math.ceil(numbers.length * factor));
  const next = new (numbers.constructor as new (length: number) => T)(length);
  next.set(numbers);
  return next;
}
