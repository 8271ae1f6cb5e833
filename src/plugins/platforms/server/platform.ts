import type { Platform } from "../../../deploy/platform.ts";
import type { ProxyOptions } from "./change.ts";
import { LABEL } from "./context.ts";
import { hostsOf, type ServerFlags, ServerFlagsSchema } from "./flags.ts";
import { pipelineLogin } from "./pipeline.ts";
import { openSession } from "./session.ts";

/** The platform, whose proxy for HTTPS is run in this way. */
export function serverPlatform(proxy: ProxyOptions): Platform<ServerFlags> {
  return {
    name: "server",
    defaultRegion: "server",
    flags: ServerFlagsSchema,
    placeOf: ({ host }) => host,
    split: (flags) => hostsOf(flags).map((host) => ({ ...flags, host })),
    checkLabel,
    pipeline: pipelineLogin,
    connect: (target, tools) => openSession(target, tools, proxy),
  };
}

/** Rule for a label of a container. */
function checkLabel(name: string): string | undefined {
  if (name.startsWith(`${LABEL}.`)) return "svc finds its containers by such labels";
  return /^[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?$/.test(name) && !/^(com|io|org)\.docker/.test(name)
    ? undefined
    : "labels of Docker are lower-case letters, digits, dots, hyphens and _, not com.docker, io.docker or org.docker";
}

export default serverPlatform({
  name: `${LABEL}.proxy`,
  image: "docker.io/library/caddy:2",
  httpPort: 80,
  httpsPort: 443,
  patience: 60,
});
