/** The agent of these tests in a controller file, for tests that end the process. */
export const REFUNDS = `
import { createServer, defineAgent } from "agent-control-service";

const refunds = defineAgent({
  name: "Refunds", version: "1.0.0",
  methods: { job_start: { fields: [{ name: "order", required: true }], run: async ({ job, fields }) => {
    const item = await job.openCase({ id: "refund", name: "Refund of " + fields.order });
    const first = await item.ask({ key: "approve", question: "Refund " + fields.order + "?", fields: [
      { name: "approved", field_type: "BooleanField", required: true }, { name: "reason" }, { name: "details" }] });
    const second = await item.ask({ key: "amount", question: "How much?", fields: [{ name: "amount", field_type: "FloatField", required: true }] });
    await item.close({ first, second });
    return { message: "Refunded " + second.amount, first };
  } } },
});
`;
