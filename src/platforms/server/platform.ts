import type { Platform } from "../../deploy/platform.ts";
import type { ProxyOptions } from "./change.ts";
import { LABEL } from "./context.ts";
import type { ServerFlags } from "./flags.ts";
import { ServerFlagsSchema } from "./flags.ts";
import { pipelineLogin } from "./pipeline.ts";
import { openSession } from "./session.ts";

/** The platform, whose proxy for HTTPS is run in this way. */
export function serverPlatform(proxy: ProxyOptions): Platform<ServerFlags> {
  return {
    name: "server",
    defaultRegion: "server",
    flags: ServerFlagsSchema,
    placeOf: ({ host }) => host,
    pipeline: pipelineLogin,
    connect: (target, tools) => openSession(target, tools, proxy),
  };
}

export default serverPlatform({
  name: `${LABEL}.proxy`,
  image: "docker.io/library/caddy:2",
  httpPort: 80,
  httpsPort: 443,
  patience: 60,
});
