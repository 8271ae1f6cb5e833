import { createServer } from "agent-control-service";
import { logWatch } from "./agent.ts";

export default createServer({
  agents: [logWatch],
  // Each hour, unless the last one's job has not ended.
  schedules: [{ cron: "0 * * * *", agent: logWatch, overlap: "skip" }],
});
