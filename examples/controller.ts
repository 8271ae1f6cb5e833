import { createServer } from "agent-control-service";
import { hello } from "./hello/controller.ts";
import { invoiceAudit } from "./invoice-audit/agent.ts";
import { logWatch } from "./log-watch/agent.ts";

/** What `npm start` runs. */
export default createServer({ agents: [invoiceAudit, logWatch, hello] });
