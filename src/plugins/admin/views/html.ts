import { escapeHtml } from "../../../core/base/escape-html.ts";

/** A piece of HTML that is safe to show: created only by `html`. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What a template takes: text is escaped, markup is not. */
export type HtmlValue = string | number | boolean | null | undefined | Html | readonly HtmlValue[];

/**
 * Builds HTML; every value is escaped unless it is itself `html`. Absent and `false` values render as
 * nothing. Attributes must be quoted.
 *
 * @example
 * html`<a href="/admin/jobs/${id}">${name}</a>`
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let text = strings[0] ?? "";
  for (const [index, value] of values.entries()) text += toText(value) + (strings[index + 1] ?? "");
  return new Html(text);
}

function toText(value: HtmlValue): string {
  if (value === null || value === undefined || value === false || value === true) return "";
  if (value instanceof Html) return value.toString();
  if (isList(value)) return value.map(toText).join("");
  return escapeHtml(String(value));
}

function isList(value: HtmlValue): value is readonly HtmlValue[] {
  return Array.isArray(value);
}
