import { createServer } from "agent-control-service";
import type { Plugin } from "agent-control-service/plugin";
import { assistant } from "./assistant/controller.ts";
import { contractReview } from "./contract-review/agent.ts";
import { hello } from "./hello/controller.ts";
import { invoiceAudit } from "./invoice-audit/agent.ts";
import { logWatch } from "./log-watch/agent.ts";
import { replyDesk } from "./reply-desk/controller.ts";

const HINT = `
The audit asks about four odd invoices and waits 20 seconds for answers. To take your time:

  npx svc job start invoice-audit --field deadline=2d
`;

/** Suggests what else to try, below the output of `svc start`. */
const hint: Plugin = {
  name: "hint",
  setup: ({ hooks }) => {
    hooks.on("service:ready", () => void setImmediate(() => console.log(HINT)));
  },
};

/** What `npm start` runs. */
export default createServer({
  agents: [replyDesk, assistant, contractReview, invoiceAudit, logWatch, hello],
  plugins: [hint],
});
