// The agent whose jobs are kept for some time.
import { defineAgent } from "../../dist/index.js";

export const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
        const text = await item.step("work", () => "what a step gives ".repeat(20));
        await item.close({ text });
        return { message: text };
      },
    },
  },
});
