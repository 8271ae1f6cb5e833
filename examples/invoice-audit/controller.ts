import { createServer } from "agent-control-service";
import { invoiceAudit } from "./agent.ts";

export default createServer({ agents: [invoiceAudit] });
