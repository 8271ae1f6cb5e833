import { defineAgent } from "agent-control-service";
import * as v from "valibot";

/** Asks two questions, one after the other, and returns the answers. */
export const refunds = defineAgent({
  name: "Refunds",
  version: "1.0.0",
  description: "Pays a customer back",
  methods: {
    job_start: {
      fields: v.object({
        order: v.pipe(v.string(), v.description("Number of the order")),
        lines: v.optional(v.array(v.object({ sku: v.string(), count: v.number() }))),
      }),
      run: async ({ job, fields }) => {
        const item = await job.openCase({ id: "refund", name: `Refund of ${fields.order}` });
        const first = await item.ask({
          key: "approve",
          question: `Refund ${fields.order}?`,
          fields: [
            { name: "approved", field_type: "BooleanField", required: true },
            { name: "reason", field_type: "ChoiceField", choices: [["late", "It came late"], "broken"] },
            { name: "details", field_type: "JSONField", description: "More" },
          ],
        });
        const second = await item.ask({
          key: "amount",
          question: "How much?",
          fields: v.object({ amount: v.pipe(v.number(), v.maxValue(100, "must be at most 100")) }),
        });
        await item.close({ first, second });
        return { message: `Refunded ${second.amount}`, first };
      },
    },
  },
});
