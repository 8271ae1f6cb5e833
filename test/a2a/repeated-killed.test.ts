// @losses
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { access, PROCESS_TIME, project } from "../cli/_svc.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { said } from "./_call.ts";

/** Notes each payment in a file; the second one is made once another file is there. */
const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
import { a2a } from "agent-control-service/a2a";

const fields = [{ name: "approved", field_type: "BooleanField", required: true }];
const payer = defineAgent({
  name: "Payer", version: "1.0.0",
  methods: { job_start: { fields: [{ name: "order", required: true }], run: async ({ job, fields: { order } }) => {
    const item = await job.openCase({ id: "pay", name: "Pay" });
    await item.ask({ question: "Pay " + order + "?", fields });
    await item.step("pay", () => appendFileSync("effects", "paid\\n"), { cost: 1 });
    await item.ask({ question: "And a tip?", fields });
    await item.step("tip", async () => {
      while (!existsSync("go")) await new Promise((done) => setTimeout(done, 20));
      appendFileSync("effects", "tipped\\n");
    }, { cost: 1 });
    await item.close({ paid: true });
    return "done";
  } } },
});
export default createServer({ agents: [payer], plugins: [a2a()] });
`;

it(
  "a message whose service is killed before or after its response has one effect, and each time the same response",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    const restart = async (): Promise<void> => {
      await service.kill();
      await service.start();
    };
    const send = async (params: object): Promise<{ task: { id: string } } | string> => {
      const { url, key } = await access(service.folder);
      const headers = { "x-api-key": key, "a2a-version": "1.0", "content-type": "application/json" };
      const request = { method: "POST", headers, body: JSON.stringify(params) };
      return fetch(`${url}/a2a/payer/message:send`, request)
        .then((response) => response.json() as Promise<{ task: { id: string } }>)
        .catch(() => "lost");
    };
    const start = said("m1", [{ data: { order: "7" } }]);
    const first = [await send(start)];
    const { id: taskId } = (first[0] as { task: { id: string } }).task;
    const pay = said("m2", [{ data: { approved: true } }], { taskId });
    const tip = said("m3", [{ data: { approved: true } }], { taskId });
    await restart();
    first.push(await send(pay));
    await restart();
    // That one is killed before its response.
    const lost = send(tip);
    await expect
      .poll(async () => (await service.send(`/jobs/${taskId}/cases`)).text())
      .toContain('"status":"in_progress"');
    await restart();
    expect(await lost).toBe("lost");
    const third = send(tip);
    await writeFile(join(service.folder, "go"), "");
    first.push(await third);

    for (const _ of [2, 3]) {
      await restart();
      const again = [await send(start), await send(pay), await send(tip)];
      expect(again).toEqual(first);
    }
    expect(first).toMatchObject([
      {
        task: {
          status: { state: "TASK_STATE_INPUT_REQUIRED", message: { parts: [{ text: "Pay 7?" }, {}] } },
        },
      },
      {
        task: {
          status: { state: "TASK_STATE_INPUT_REQUIRED", message: { parts: [{ text: "And a tip?" }, {}] } },
        },
      },
      { task: { status: { state: "TASK_STATE_COMPLETED" }, metadata: { cost: 2 } } },
    ]);
    expect(await readFile(join(service.folder, "effects"), "utf8")).toBe("paid\ntipped\n");
    await service.end();
  },
  PROCESS_TIME,
);
