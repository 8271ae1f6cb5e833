import { type Html, html } from "./html.ts";

/** A name and its value. */
export interface FactLine {
  readonly name: string;
  readonly html: string;
}

/** Facts that have a value. */
export function toFacts(
  facts: readonly (readonly [name: string, value: Html | string | null | undefined])[],
): FactLine[] {
  return facts.flatMap(([name, value]) =>
    value === null || value === undefined || value === "" ? [] : [{ name, html: html`${value}`.toString() }],
  );
}
