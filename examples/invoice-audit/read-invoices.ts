import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import * as v from "valibot";
import { type CsvRow, parseCsv } from "./csv.ts";
import type { Invoice } from "./invoice.ts";

/** A part of the folder that is not an invoice, and the reason. */
export interface Unreadable {
  readonly source: string;
  readonly why: string;
}

export interface InvoiceFolder {
  readonly invoices: Invoice[];
  readonly unreadable: Unreadable[];
}

const DaySchema = v.pipe(v.string(), v.isoDate("is not a date"));
const AmountSchema = v.pipe(v.number("is not an amount"), v.finite("is not an amount"));

const InvoiceSchema = v.object({
  number: v.pipe(v.string(), v.nonEmpty("is missing")),
  supplier: v.pipe(v.string(), v.nonEmpty("is missing")),
  issued: DaySchema,
  due: DaySchema,
  currency: v.pipe(v.string(), v.regex(/^[A-Z]{3}$/, "is not a currency")),
  net: AmountSchema,
  vat_rate: AmountSchema,
  vat: AmountSchema,
  total: AmountSchema,
  iban: v.string(),
  lines: v.array(v.object({ description: v.string(), quantity: AmountSchema, unit_price: AmountSchema })),
  source: v.string(),
});

/** Reads every CSV and JSON file of a folder, in the order of their names. */
export async function readInvoices(folder: string): Promise<InvoiceFolder> {
  const found: InvoiceFolder = { invoices: [], unreadable: [] };
  const names = (await readdir(folder)).filter((name) => /\.(csv|json)$/i.test(name)).sort();
  for (const name of names) {
    const text = await readFile(join(folder, name), "utf8");
    if (name.toLowerCase().endsWith(".json")) addJson(found, name, text);
    else for (const row of parseCsv(text)) add(found, fromRow(row, name));
  }
  return found;
}

function addJson(found: InvoiceFolder, source: string, text: string): void {
  try {
    const { supplier, ...invoice } = JSON.parse(text) as { supplier?: { name?: string; iban?: string } };
    add(found, { ...invoice, supplier: supplier?.name, iban: supplier?.iban ?? "", source });
  } catch (error) {
    found.unreadable.push({ source, why: (error as Error).message });
  }
}

function fromRow({ line, fields }: CsvRow, file: string): Record<string, unknown> {
  return {
    ...fields,
    issued: toDay(fields.issued),
    due: toDay(fields.due),
    net: toAmount(fields.net),
    vat_rate: toAmount(fields.vat_rate),
    vat: toAmount(fields.vat),
    total: toAmount(fields.total),
    lines: [],
    source: `${file}:${line}`,
  };
}

function add(found: InvoiceFolder, candidate: { source: string } | Record<string, unknown>): void {
  const result = v.safeParse(InvoiceSchema, candidate);
  if (result.success) {
    found.invoices.push(result.output);
    return;
  }
  const why = result.issues.map((issue) => `${v.getDotPath(issue)} ${issue.message}`).join(", ");
  found.unreadable.push({ source: String(candidate.source), why });
}

/** `2026-07-31` or `31.07.2026`. */
function toDay(text = ""): string {
  const [, day, month, year] = /^(\d{2})\.(\d{2})\.(\d{4})$/.exec(text) ?? [];
  return year ? `${year}-${month}-${day}` : text;
}

/** `1234.50` or `1.234,50`. */
function toAmount(text = ""): number {
  const plain = /,\d{1,2}$/.test(text) ? text.replaceAll(".", "").replace(",", ".") : text;
  return plain === "" ? Number.NaN : Number(plain);
}
