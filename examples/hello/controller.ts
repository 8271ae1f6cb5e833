import { createServer, defineAgent } from "agent-control-service";
import * as v from "valibot";

export const hello = defineAgent({
  name: "Hello",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ names: v.optional(v.string(), "Ada, Grace, Edsger") }),
      async run({ job, fields }) {
        for (const name of fields.names.split(/,\s*/)) {
          const item = await job.openCase({ id: name.toLowerCase(), name: `Greet ${name}` });
          await item.close({ greeting: await item.step("write", () => `Hello ${name}!`, { cost: 0.001 }) });
        }
        return { message: "Everybody has been greeted" };
      },
    },
  },
});
export default createServer({ agents: [hello] });
