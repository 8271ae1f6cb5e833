import { type Finding, type Invoice, money } from "./invoice.ts";

/** Sums may differ by a cent of rounding. */
const CENT = 0.011;
/** Bills of one supplier that are needed to know its usual amounts. */
const ENOUGH_HISTORY = 3;
const NEAR_DAYS = 10;

/** Net, tax, total and lines must agree, and dates must make sense. */
export function checkArithmetic(invoice: Invoice): Finding[] {
  const { net, vat, vat_rate, total, lines, currency, issued, due } = invoice;
  const findings: Finding[] = [];
  const sum = lines.reduce((so_far, line) => so_far + line.quantity * line.unit_price, 0);
  if (lines.length > 0 && differs(sum, net)) {
    findings.push(
      error(`The lines add up to ${money(sum, currency)}, but the net amount is ${money(net, currency)}`),
    );
  }
  const expected = (net * vat_rate) / 100;
  if (differs(expected, vat)) {
    findings.push(
      error(`${vat_rate} % tax would be ${money(expected, currency)}, charged is ${money(vat, currency)}`),
    );
  }
  if (differs(net + vat, total)) {
    findings.push(
      error(`Net and tax make ${money(net + vat, currency)}, the total says ${money(total, currency)}`),
    );
  }
  if (due < issued) findings.push(error(`It is due on ${due}, before it was issued on ${issued}`));
  return findings;
}

/** The account must be a real one, and the one that this supplier always used. */
export function checkAccount(invoice: Invoice, all: readonly Invoice[]): Finding[] {
  if (!isIban(invoice.iban))
    return [error(`${invoice.iban} is no valid account number: its check digits are wrong`)];
  const others = othersOf(invoice, all).filter((one) => one.iban !== invoice.iban);
  const usual = mostFrequent(othersOf(invoice, all).map((one) => one.iban));
  if (others.length < ENOUGH_HISTORY || usual === invoice.iban) return [];
  return [
    odd(`The account ${invoice.iban} is new: ${others.length} other bills of this supplier name ${usual}`),
  ];
}

/** The same number twice is an error for the later one; the same amount again soon after is odd. */
export function checkDuplicates(invoice: Invoice, all: readonly Invoice[]): Finding[] {
  const earlier = all.slice(
    0,
    all.findIndex((one) => one.source === invoice.source),
  );
  const bySupplier = earlier.filter((one) => one.supplier === invoice.supplier);
  const same = bySupplier.find((one) => one.number === invoice.number);
  if (same) return [error(`The same invoice already exists (${same.source})`)];
  const near = othersOf(invoice, all).find(
    (one) =>
      one.number !== invoice.number &&
      one.total === invoice.total &&
      daysBetween(one.issued, invoice.issued) < NEAR_DAYS &&
      isRelated(one.number, invoice.number),
  );
  if (!near || near.number.length > invoice.number.length) return [];
  return [odd(`${near.number} of ${near.issued} has the same amount, ${money(near.total, near.currency)}`)];
}

/** An amount far above what this supplier usually bills. */
export function compareWithHistory(invoice: Invoice, all: readonly Invoice[], factor: number): Finding[] {
  const totals = othersOf(invoice, all)
    .filter((one) => one.total > 0)
    .map((one) => one.total);
  if (totals.length < ENOUGH_HISTORY || invoice.total <= 0) return [];
  const usual = median(totals);
  if (invoice.total <= usual * factor) return [];
  const times = (invoice.total / usual).toFixed(1);
  return [
    odd(
      `${money(invoice.total, invoice.currency)} is ${times} times the usual ${money(usual, invoice.currency)}`,
    ),
  ];
}

function error(message: string): Finding {
  return { severity: "error", message };
}

function odd(message: string): Finding {
  return { severity: "odd", message };
}

function differs(a: number, b: number): boolean {
  return Math.abs(a - b) > CENT;
}

function othersOf(invoice: Invoice, all: readonly Invoice[]): Invoice[] {
  return all.filter((one) => one.supplier === invoice.supplier && one.source !== invoice.source);
}

function daysBetween(a: string, b: string): number {
  return Math.abs(Date.parse(a) - Date.parse(b)) / 86_400_000;
}

/** `PW-5522` and `PW-5522-A`. */
function isRelated(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function mostFrequent(values: readonly string[]): string | undefined {
  const count = (value: string) => values.filter((one) => one === value).length;
  return values.toSorted((a, b) => count(b) - count(a))[0];
}

/** Check digits of an account number, ISO 7064 mod 97-10. */
function isIban(iban: string): boolean {
  const plain = iban.replaceAll(" ", "");
  if (!/^[A-Z]{2}\d{2}[A-Z0-9]{8,30}$/.test(plain)) return false;
  const digits = `${plain.slice(4)}${plain.slice(0, 4)}`.replace(/[A-Z]/g, (letter) =>
    String(letter.charCodeAt(0) - 55),
  );
  return [...digits].reduce((rest, digit) => (rest * 10 + Number(digit)) % 97, 0) === 1;
}
