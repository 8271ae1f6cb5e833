import { createServer } from "agent-control-service";
import { llmTriage } from "./agent.ts";

export default createServer({ agents: [llmTriage] });
