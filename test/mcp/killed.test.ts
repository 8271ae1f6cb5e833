import { expect, it } from "vitest";
import { access, project } from "../cli/_svc.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { WALKED, walk } from "./_walk.ts";

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
import { mcp } from "agent-control-service/mcp";

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
export default createServer({ port: 0, agents: [refunds], plugins: [mcp({ pollInterval: "50ms" })] });
`;

it("the process may be killed before each request about a task", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  let isNew = true;

  const tasks = await walk(async () => {
    if (!isNew) {
      await service.kill();
      await service.start();
    }
    isNew = false;
    return access(service.folder);
  });

  expect(tasks).toMatchObject(WALKED);
});
