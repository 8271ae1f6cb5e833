import { createServer } from "agent-control-service";
import { hello } from "../hello/controller.ts";

export default createServer({
  agents: [hello],
  plugins: [{ name: "ssh-docker", platforms: { "ssh-docker": () => import("./platform.ts") } }],
});
