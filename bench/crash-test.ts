import { defineAgent } from "../src/index.ts";
import type { BenchRow } from "./row.ts";

/** The built package; named so that the types need no build. */
const BUILT = new URL("../dist/testing.js", import.meta.url).href;
const MOST = 3;

/** How long `crashTest` takes for an agent of sixty calls in parallel chains: an interruption before and after each. */
export async function run(): Promise<BenchRow[]> {
  const { crashTest } = (await import(BUILT)) as typeof import("../src/testing.ts");
  const agent = defineAgent({
    name: "Chains",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const sums = await Promise.all(
            [1, 2, 3, 4, 5, 6].map(async (n) => {
              const item = await job.openCase({ id: `item-${n}`, name: `Item ${n}` });
              let sum = 0;
              for (let part = 0; part < 7; part++) sum += await item.step(`part ${part}`, () => part * n);
              const { ok } = await item.ask("right", {
                question: "Is that right?",
                fields: [{ name: "ok", field_type: "BooleanField" }],
              });
              await item.close({ sum });
              return ok ? sum : 0;
            }),
          );
          return { sums };
        },
      },
    },
  });
  const begun = performance.now();
  const { lines, interruptions } = await crashTest(agent, { answers: () => ({ ok: true }) });
  const seconds = (performance.now() - begun) / 1000;
  if (interruptions <= 120) throw new Error(`Only ${interruptions} interruptions`);
  const name = `crashTest of a job with ${lines} lines, ${interruptions} interruptions`;
  return [{ name, value: seconds, unit: "s", target: `< ${MOST}`, ok: seconds < MOST }];
}
