import * as v from "valibot";
import { withQuery } from "../query.ts";

type Value = string | number | null | readonly string[];
/** A line of a table. */
export type DownloadRow = Readonly<Record<string, Value>>;

const FORMATS = ["csv", "json"] as const;

/** Of a query: how a table is downloaded. */
export const DownloadFormatSchema = v.optional(v.picklist(FORMATS), "csv");

/** Links to a table as each format. */
export const downloadsOf = (path: string, query: Parameters<typeof withQuery>[1]) =>
  FORMATS.map((format) => ({ label: format.toUpperCase(), href: withQuery(path, query, { format }) }));

/**
 * A table as a download: CSV (RFC 4180) as spreadsheets open it, with a byte order mark, as Excel does not read ä and ł
 * otherwise; or a JSON array.
 */
export function downloadOf(
  name: string,
  format: (typeof FORMATS)[number],
  { columns, rows }: { readonly columns: readonly string[]; readonly rows: AsyncIterable<DownloadRow> },
): Response {
  const isCsv = format === "csv";
  return new Response(toStream(isCsv ? csv(columns, rows) : json(rows)), {
    headers: {
      "content-type": isCsv ? "text/csv; charset=utf-8" : "application/json; charset=utf-8",
      "content-disposition": `attachment; filename="${name}.${format}"`,
      "cache-control": "no-store",
    },
  });
}

async function* csv(columns: readonly string[], rows: AsyncIterable<DownloadRow>): AsyncGenerator<string> {
  yield `\uFEFF${columns.join(",")}\r\n`;
  for await (const row of rows) yield `${columns.map((name) => cell(row[name] ?? null)).join(",")}\r\n`;
}

async function* json(rows: AsyncIterable<DownloadRow>): AsyncGenerator<string> {
  let before = "[";
  for await (const row of rows) {
    yield `${before}${JSON.stringify(row)}`;
    before = ",\n";
  }
  yield before === "[" ? "[]" : "]";
}

/** A spreadsheet would run a text that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

function cell(given: Value): string {
  if (given === null || typeof given === "number") return String(given ?? "");
  const value = typeof given === "string" ? given : given.join(", ");
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function toStream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await texts.return(undefined);
    },
  });
}
