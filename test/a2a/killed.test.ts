import { expect, it } from "vitest";
import { access, project } from "../cli/_svc.ts";
import { REFUNDS } from "../mcp/_controller.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { WALKED, walk } from "./_walk.ts";

const CONTROLLER = `
import { a2a } from "agent-control-service/a2a";
${REFUNDS}
export default createServer({ port: 0, agents: [refunds], plugins: [a2a()] });
`;

it("the process may be killed before each request", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  let isNew = true;

  const walked = await walk(async () => {
    if (!isNew) {
      await service.kill();
      await service.start();
    }
    isNew = false;
    return access(service.folder);
  }, "JSONRPC");

  expect(walked).toMatchObject(WALKED);
});
