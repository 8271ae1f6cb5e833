import { createServer } from "agent-control-service";
import { contractReview } from "./agent.ts";

export default createServer({ agents: [contractReview] });
