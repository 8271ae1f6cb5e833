import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type CaseHandle, type Duration, defineAgent, isDuration } from "agent-control-service";
import * as v from "valibot";
import { checkAccount, checkArithmetic, checkDuplicates, compareWithHistory } from "./checks.ts";
import { type Finding, type Invoice, money } from "./invoice.ts";
import { readInvoices } from "./read-invoices.ts";
import { type Audited, summarize, writeReport } from "./report.ts";

const INVOICES = fileURLToPath(new URL("./invoices", import.meta.url));
/** The cost of one check. */
const CHECK_COST = 0.002;

/** Audits a folder of invoices: rejects the wrong ones, asks a person about the odd ones, writes a report. */
export const invoiceAudit = defineAgent({
  name: "Invoice Audit",
  version: "1.0.0",
  description:
    "Reads a folder of invoices, finds errors and duplicates, and asks a person about the odd ones",
  tags: ["example", "finance"],
  methods: {
    job_start: {
      description: "Audit all invoices of a folder",
      fields: v.object({
        folder: v.pipe(v.optional(v.string(), INVOICES), v.description("Folder with CSV and JSON files")),
        factor: v.pipe(
          v.optional(v.number(), 3),
          v.description("Ask about a bill this many times the usual one"),
        ),
        deadline: v.pipe(
          v.optional(v.string(), "20s"),
          v.guard(isDuration, "must be a duration such as 20s"),
          v.description("How long a question waits; then it is held"),
        ),
        report: v.pipe(v.optional(v.string(), "reports"), v.description("Folder for the report")),
      }),
      nodes: [
        { name: "arithmetic", type: "validation", description: "Sums, tax and dates agree" },
        { name: "duplicates", type: "validation", description: "Nobody sent it twice" },
        { name: "account", type: "validation", description: "The account is valid and the usual one" },
        { name: "history", type: "validation", description: "The amount is a usual one" },
        { name: "question", type: "human_in_the_loop", description: "A person decides about the odd ones" },
        { name: "close", type: "delivery", description: "Pay, reject or hold" },
      ],
      async run({ job, fields, log }) {
        const folder = resolve(fields.folder);
        const { invoices, unreadable } = await job.step("read the folder", () => readInvoices(folder));
        log.info("invoices read", { invoices: invoices.length, unreadable: unreadable.length });

        const opened: { invoice: Invoice; item: CaseHandle }[] = [];
        for (const [index, invoice] of invoices.entries()) {
          const item = await job.openCase({
            id: caseId(invoice, invoices, index),
            name: `${invoice.number}, ${money(invoice.total, invoice.currency)}`,
            description: `${invoice.supplier}, issued ${invoice.issued} (${invoice.source})`,
          });
          opened.push({ invoice, item });
        }
        const audited = await Promise.all(
          opened.map(({ invoice, item }) => audit({ invoice, item, invoices, ...fields })),
        );

        const file = resolve(fields.report, `invoice-audit-${job.id}.md`);
        await job.step("write the report", () => writeReport(file, audited, unreadable));
        const [pay, reject, hold] = (["pay", "reject", "hold"] as const).map((one) =>
          summarize(audited, one),
        );
        return {
          message: `${audited.length} ${audited.length === 1 ? "invoice" : "invoices"}: ${pay!.count} to pay, ${reject!.count} rejected, ${hold!.count} on hold`,
          report: file,
          pay,
          reject,
          hold,
          unreadable,
        };
      },
    },
  },
});

interface AuditInput {
  readonly invoice: Invoice;
  readonly item: CaseHandle;
  readonly invoices: readonly Invoice[];
  readonly factor: number;
  readonly deadline: Duration;
}

async function audit({ invoice, item, invoices, factor, deadline }: AuditInput): Promise<Audited> {
  const check = (name: string, run: () => Finding[]) => item.step(name, run, { cost: CHECK_COST });
  const findings = [
    ...(await check("arithmetic", () => checkArithmetic(invoice))),
    ...(await check("duplicates", () => checkDuplicates(invoice, invoices))),
    ...(await check("account", () => checkAccount(invoice, invoices))),
    ...(await check("history", () => compareWithHistory(invoice, invoices, factor))),
  ];
  const audited = await decide({ invoice, item, findings, deadline });
  await item.close({
    decision: audited.decision,
    findings,
    ...(audited.comment && { comment: audited.comment }),
  });
  return audited;
}

interface DecideInput {
  readonly invoice: Invoice;
  readonly item: CaseHandle;
  readonly findings: readonly Finding[];
  readonly deadline: Duration;
}

async function decide({ invoice, item, findings, deadline }: DecideInput): Promise<Audited> {
  if (findings.length === 0) return { invoice, findings, decision: "pay" };
  if (findings.some((finding) => finding.severity === "error"))
    return { invoice, findings, decision: "reject" };
  const answer = await item.ask({
    question: `Pay ${invoice.number} of ${invoice.supplier}? ${findings.map((one) => one.message).join(". ")}.`,
    fields: v.object({ approved: v.boolean(), comment: v.optional(v.string(), "") }),
    deadline,
    onTimeout: "default",
    default: { approved: false, comment: "nobody answered in time" },
  });
  return { invoice, findings, decision: answer.approved ? "pay" : "hold", comment: answer.comment };
}

/** A number can occur twice, and may contain characters that an id cannot. */
function caseId(invoice: Invoice, invoices: readonly Invoice[], index: number): string {
  const id = invoice.number.toLowerCase().replace(/[^a-z0-9.-]+/g, "-");
  const before = invoices.slice(0, index).filter((one) => one.number === invoice.number).length;
  return before === 0 ? id : `${id}-copy-${before}`;
}
