/** One line of an invoice. */
export interface InvoiceLine {
  readonly description: string;
  readonly quantity: number;
  readonly unit_price: number;
}

/** An invoice, wherever it came from. Dates are ISO 8601 days, amounts are in `currency`. */
export interface Invoice {
  readonly number: string;
  readonly supplier: string;
  readonly issued: string;
  readonly due: string;
  readonly currency: string;
  readonly net: number;
  readonly vat_rate: number;
  readonly vat: number;
  readonly total: number;
  readonly iban: string;
  readonly lines: readonly InvoiceLine[];
  /** File and place that it was read from, such as `2026-q2.csv:14`. */
  readonly source: string;
}

/** A finding about an invoice: an error is a reason not to pay it, an oddity is for a person to decide. */
export interface Finding {
  readonly severity: "error" | "odd";
  readonly message: string;
}

/** An amount as people read it. */
export function money(amount: number, currency = "EUR"): string {
  return `${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${currency}`;
}
