import { createServer } from "agent-control-service";
import { hello } from "../hello/controller.ts";
import { audit } from "./audit.ts";

export default createServer({ agents: [hello], plugins: [audit()] });
