import { type Html, html } from "./html.ts";

/** A name and what stands beside it. */
export interface FactLine {
  readonly name: string;
  readonly html: string;
}

/** Facts whose value is there. */
export function toFacts(
  facts: readonly (readonly [name: string, value: Html | string | null | undefined])[],
): FactLine[] {
  return facts.flatMap(([name, value]) =>
    value === null || value === undefined || value === "" ? [] : [{ name, html: html`${value}`.toString() }],
  );
}
