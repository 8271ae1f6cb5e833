import { createServer } from "agent-control-service";
import { createAgent } from "./agent.ts";
import { modelCheck, openModel } from "./model.ts";
import { standIn } from "./stand-in.ts";

/** The service: `svc dev` and `svc start` run what this file exports. */
export default createServer({
  agents: [createAgent(await openModel(standIn))],
  plugins: [modelCheck()],
});
