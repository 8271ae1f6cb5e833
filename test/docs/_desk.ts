/** The service that the commands of most pages ask: its agents, jobs and cases have the names of the pages. */
export const DESK = `
import { readdirSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
import * as v from "valibot";
import { assistant } from "./assistant/controller.ts";
import { hello } from "./hello/controller.ts";

const audited = v.object({ folder: v.string(), factor: v.optional(v.number(), 3) });

const invoiceAudit = defineAgent({
  name: "Invoice Audit",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: audited,
      async run({ job, fields }) {
        const files = await job.step("read", () => readdirSync(fields.folder));
        const item = await job.openCase({ id: "sw-77121098", name: "SW-77121098" });
        const question = { question: "Pay SW-77121098?", fields: v.object({ approved: v.boolean(), comment: v.optional(v.string(), "") }) };
        const { approved } = fields.factor < 5 ? await item.ask("approve", question) : { approved: true };
        const paid = await job.step("pay", () => (approved ? files.length : 0), { cost: 1 });
        await item.close({ paid });
        return { message: \`paid \${paid}\` };
      },
    },
  },
});

const auditor = defineAgent({
  name: "Invoice Auditor",
  version: "1.0.0",
  parameters: [{ name: "ERP_TOKEN" }],
  methods: {
    job_start: {
      fields: audited,
      run: ({ job, parameters }) => job.step("sign in", () => ({ message: \`token of \${parameters.ERP_TOKEN?.length}\` })),
    },
  },
});

const orders = defineAgent({
  name: "Orders",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const item = await job.openCase({ id: "order-7", name: "Order 7" });
        await item.ask("refund", { question: "Refund it?", fields: v.object({ yes: v.boolean() }), assignTo: "finance" });
      },
    },
  },
});

export default createServer({
  agents: [invoiceAudit, auditor, orders, hello, assistant],
  schedules: [{ id: "nightly", agent: invoiceAudit, cron: "0 3 * * *", timezone: "Europe/Paris", fields: { folder: "/srv/invoices" } }],
});
`;
