// One agent in the service's process and one in a process of its own: each says what a step of it took, in microseconds.
import { createServer, defineAgent } from "../../dist/index.js";

const agent = (name, isolate) =>
  defineAgent({
    ...{ name, version: "1.0.0", isolate },
    methods: {
      job_start: {
        fields: [{ name: "n", field_type: "IntegerField", default: 1 }],
        async run({ job, fields }) {
          const begun = performance.now();
          for (let n = 0; n < fields.n; n++) await job.step("step", () => ({ n, text: "what a step gives" }));
          return { took: ((performance.now() - begun) / fields.n) * 1000 };
        },
      },
    },
  });

export default createServer({ agents: [agent("Inside", false), agent("Apart", true)], logTo: () => {} });
