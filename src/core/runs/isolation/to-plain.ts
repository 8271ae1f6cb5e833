import { toWire } from "./wire-error.ts";

/** What JSON makes of a value; nothing where it can make nothing of it. */
export function toPlain(value: unknown): unknown {
  try {
    return JSON.parse(
      JSON.stringify(value, (_, one: unknown) =>
        one instanceof Error ? toWire(one) : typeof one === "bigint" ? String(one) : one,
      ) ?? "null",
    );
  } catch {
    return null;
  }
}
