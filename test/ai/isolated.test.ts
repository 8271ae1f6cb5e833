// @long
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentDefinition } from "agent-control-service";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { modelServer, testServer } from "agent-control-service/testing";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { shopModel } from "../../examples/refund-agent/shop.ts";
import { type BuiltPackage, buildPackage } from "../_built.ts";
import { shareOf } from "../_share.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const EXAMPLES = [
  { example: "refund-agent", make: "refundAgent", calls: 3 },
  { example: "refund-openai", make: "refundOpenai", calls: 3 },
  { example: "refund-graph", make: "refundGraph", calls: 1 },
];

/** An example in one module, as a process of its own can load it. */
async function bundle({ folder }: BuiltPackage, { example, make }: (typeof EXAMPLES)[number], url: string) {
  const source = (name: string) => JSON.stringify(join(ROOT, "examples", name));
  const input = join(folder, `${example}.entry.mjs`);
  await writeFile(
    input,
    `import { ${make} } from ${source(`${example}/agent.ts`)};
import { createShop } from ${source("refund-agent/shop.ts")};
export const agent = ${make}(${JSON.stringify(url)}, createShop());
`,
  );
  const made = await rolldown({
    input,
    platform: "node",
    external: (id) => !id.startsWith(".") && !id.startsWith("/"),
  });
  const file = join(folder, `${example}.mjs`);
  await made.write({ file, codeSplitting: false });
  await made.close();
  return file;
}

test.each(shareOf(EXAMPLES, 3))(
  "in a process of its own, $example asks people, and pays no model call twice after a crash",
  async (of) => {
    await using built = await buildPackage();
    await using model = await modelServer({ reply: shopModel });
    const module = await bundle(built, of, model.url);
    const { agent } = (await import(module)) as { agent: AgentDefinition };
    await using server = await testServer({ agents: [{ ...agent, isolate: { module } }] });
    const job_fields = { request: "Please refund the orders 12 and 13" };
    await server.request(`/agents/${of.example}/jobs`, {
      json: { job_context: { job_id: "job" }, job_fields },
    });
    const answered = async () => {
      const job = await server.service.get(JOBS).get("job");
      const { items } = await server.service
        .get(CASES)
        .list({ where: { job_id: "job", status: "awaiting" } });
      return { job, item: items[0] };
    };
    // A question, or an end.
    await expect
      .poll(
        async () => {
          const { job, item } = await answered();
          return item !== undefined || job.finished_at !== null;
        },
        { timeout: 100_000 },
      )
      .toBe(true);
    expect((await answered()).job.error).toBe(null);

    await server.crash();

    await expect
      .poll(
        async () => {
          const { job, item } = await answered();
          const answer = { answer: { approved: true }, message: null };
          // It may have been answered since.
          if (item)
            await server.service
              .get(RUNNER)
              .answer("job", item.id, answer)
              .catch(() => {});
          return job.status;
        },
        { timeout: 100_000 },
      )
      .toMatch(/completed|failed/);

    expect((await answered()).job).toMatchObject({ status: "completed", error: null });
    expect(model.paid.length).toBe(of.calls);
    expect(model.repeated).toEqual([]);
  },
);
