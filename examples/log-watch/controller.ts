import { createServer } from "agent-control-service";
import { logWatch } from "./agent.ts";

export default createServer({ agents: [logWatch] });
