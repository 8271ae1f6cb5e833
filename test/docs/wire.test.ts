import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type CaseHandle, defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import { expect, it, onTestFinished } from "vitest";

/** The first example of docs/models.md, as a function of what it uses. */
function exampleOfModels(): (...used: unknown[]) => Promise<unknown> {
  const page = readFileSync(new URL("../../docs/models.md", import.meta.url), "utf8");
  const [, block] = /```ts\n([\s\S]*?)^```$/m.exec(page)!;
  const code = block!.replace(/^import .*$/m, "").replace(" as const", "");
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  return new AsyncFunction("OpenAI", "item", "ticket", code);
}

it("the example of a model call sends the key of its step, so a provider charges a repeated call once", async () => {
  const keys: unknown[] = [];
  const provider = createServer((request, response) => {
    keys.push(request.headers["idempotency-key"]);
    request.resume().on("end", () => {
      response.setHeader("content-type", "application/json");
      // The first attempt is lost on its way.
      response.statusCode = keys.length === 1 ? 500 : 200;
      response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content: "ok" } }] }));
    });
  });
  await new Promise<void>((done) => provider.listen(0, "127.0.0.1", done));
  onTestFinished(() => void provider.close());
  const baseURL = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;
  class Client {
    constructor() {
      // biome-ignore lint/correctness/noConstructorReturn: the example makes its client with `new`
      return new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
    }
  }
  const run = exampleOfModels();
  const triage = defineAgent({
    name: "Triage",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const item: CaseHandle = await job.openCase({ id: "ticket", name: "Ticket" });
          await run(Client, item, { text: "Where is order 12?" });
          return "done";
        },
      },
    },
  });
  await using server = await testServer({ agents: [triage] });

  const { result } = await server.run(triage);

  expect(result).toBe("done");
  expect(keys).toEqual([expect.stringMatching(/\S/), keys[0]]);
});
