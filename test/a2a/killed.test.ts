// @long
// @losses
import { expect, it } from "vitest";
import { shareOf } from "../_share.ts";
import { access, project } from "../cli/_svc.ts";
import { REFUNDS } from "../mcp/_controller.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { WALKED, walk } from "./_walk.ts";

const CONTROLLER = `
import { a2a } from "agent-control-service/a2a";
${REFUNDS}
export default createServer({ port: 0, agents: [refunds], plugins: [a2a()] });
`;

it.each(shareOf(["JSONRPC", "HTTP+JSON"] as const, 2))(
  "the process may be killed before each request of %s",
  async (binding) => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    let isNew = true;

    const walked = await walk(async () => {
      if (!isNew) {
        await service.kill();
        await service.start();
      }
      isNew = false;
      return access(service.folder);
    }, binding);

    expect(walked).toMatchObject(WALKED);
  },
);
