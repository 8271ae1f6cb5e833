import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type Finding, type Invoice, money } from "./invoice.ts";
import type { Unreadable } from "./read-invoices.ts";

export type Decision = "pay" | "reject" | "hold";

/** The decision about one invoice. */
export interface Audited {
  readonly invoice: Invoice;
  readonly decision: Decision;
  readonly findings: readonly Finding[];
  readonly comment?: string;
}

/** Writes the report as Markdown, atomically. */
export async function writeReport(
  file: string,
  audited: readonly Audited[],
  unreadable: readonly Unreadable[],
): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.tmp`, renderReport(audited, unreadable));
  await rename(`${file}.tmp`, file);
}

/** Number and sum of the invoices with one decision. */
export function summarize(audited: readonly Audited[], decision: Decision): { count: number; sum: number } {
  const those = audited.filter((one) => one.decision === decision);
  const sum = those.reduce((so_far, one) => so_far + one.invoice.total, 0);
  return { count: those.length, sum: Math.round(sum * 100) / 100 };
}

function renderReport(audited: readonly Audited[], unreadable: readonly Unreadable[]): string {
  const section = (title: string, decision: Decision): string[] => {
    const { count, sum } = summarize(audited, decision);
    if (count === 0) return [];
    const those = audited.filter((one) => one.decision === decision);
    return [`## ${title}: ${count}, ${money(sum)}`, "", ...table(those), ""];
  };
  return [
    `# Audit of ${audited.length} ${audited.length === 1 ? "invoice" : "invoices"}`,
    "",
    ...section("Rejected", "reject"),
    ...section("On hold", "hold"),
    ...(unreadable.length > 0 ? [`## Could not be read: ${unreadable.length}`, ""] : []),
    ...unreadable.map(({ source, why }) => `- ${source}: ${why}`),
    ...(unreadable.length > 0 ? [""] : []),
    ...section("To be paid", "pay"),
  ].join("\n");
}

function table(audited: readonly Audited[]): string[] {
  return [
    "| Invoice | Supplier | Issued | Total | Why |",
    "| --- | --- | --- | ---: | --- |",
    ...audited.map(({ invoice, findings, comment }) => {
      const why = [...findings.map((finding) => finding.message), ...(comment ? [comment] : [])].join("; ");
      const total = money(invoice.total, invoice.currency);
      return `| ${invoice.number} (${invoice.source}) | ${invoice.supplier} | ${invoice.issued} | ${total} | ${why} |`;
    }),
  ];
}
