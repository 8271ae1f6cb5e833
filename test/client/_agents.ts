import { defineAgent } from "agent-control-service";
import * as v from "valibot";
import * as z from "zod";

/** Returns what it was given. */
export const invoiceAudit = defineAgent({
  name: "Invoice audit",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ folder: v.string(), limit: v.optional(v.number(), 10) }),
      run: async ({ job, fields }) => {
        const found = await job.step("read", () => fields.limit);
        return { folder: fields.folder, found };
      },
    },
  },
});

/** Asks whether it may pay. */
export const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: z.object({ amount: z.number() }),
      run: async ({ job, fields }) => {
        await job.step("before", () => "checked");
        const item = await job.openCase({ id: "payment", name: "Payment" });
        const { approved } = await item.ask("approve", {
          question: `Pay ${fields.amount}?`,
          fields: v.object({ approved: v.boolean() }),
        });
        await job.step("after", () => "paid");
        await item.close();
        return approved ? "paid" : "refused";
      },
    },
  },
});

/** Fails, or returns nothing. */
export const failing = defineAgent({
  name: "Failing / no-result",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ why: v.optional(v.string()) }),
      run: ({ fields }): void => {
        if (fields.why !== undefined) throw new Error(fields.why);
      },
    },
  },
});

export const agents = [invoiceAudit, payer, failing];
