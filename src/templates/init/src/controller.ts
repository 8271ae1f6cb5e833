import { createServer } from "agent-control-service";
import { agent } from "./agent.ts";

/** The service: `svc dev` and `svc start` run what this file exports. */
export default createServer({ agents: [agent] });
