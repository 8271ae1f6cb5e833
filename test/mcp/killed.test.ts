// @losses
import { expect, it } from "vitest";
import { access, project } from "../cli/_svc.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { REFUNDS } from "./_controller.ts";
import { WALKED, walk } from "./_walk.ts";

const CONTROLLER = `
import { mcp } from "agent-control-service/mcp";

${REFUNDS}
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
