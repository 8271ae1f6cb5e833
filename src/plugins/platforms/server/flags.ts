import * as v from "valibot";
import { option } from "../../../core/base/option.ts";

/** Removes a setting that the service has. */
export const NONE = "none";

const host = v.pipe(
  v.string(),
  v.regex(
    /^[^-\s,][^\s,]*(\s*,\s*[^-\s,][^\s,]*)*$/,
    "must be user@machine, ssh://user@machine:port, or a host of your ssh configuration; several with commas between them",
  ),
  v.check(
    (text) => new Set(hostsOf({ host: text })).size === hostsOf({ host: text }).length,
    "names a machine twice",
  ),
  v.description(
    "Machine to deploy to, as ssh takes it: user@machine, or a host of your ssh configuration; several with commas between them, on one database",
  ),
);

/** The machines that the option names. */
export function hostsOf({ host }: { readonly host: string }): string[] {
  return host.split(/\s*,\s*/);
}

const domain = v.pipe(
  v.string(),
  v.regex(
    /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/,
    "must be a host name in lower case",
  ),
  v.description(`Domain of the service, served over HTTPS by a Caddy on the server ("${NONE}" removes it)`),
);

/** Options of `--platform server`. */
export const ServerFlagsSchema = v.object({
  host,
  domain: v.optional(domain),
  bind: option.ruled(
    v.ip("must be an IP address"),
    "Address of the server on which the port is open without a domain (new service: all of them)",
  ),
  memory: option.ruled(
    v.regex(/^(\d+[kmg]|none)$/, `must be a number with k, m or g, or "${NONE}"`),
    `Most memory of the container, such as 512m ("${NONE}" removes the limit)`,
  ),
  cpus: option.ruled(
    v.regex(/^(\d+(\.\d+)?|none)$/, `must be a number, or "${NONE}"`),
    `Most CPUs of the container, such as 1.5 ("${NONE}" removes the limit)`,
  ),
  postgres: option.ruled(
    v.regex(/^(none|[a-z0-9][^\s]*)$/, `must be an image such as postgres:17, or "${NONE}"`),
    `Run a Postgres of this image beside the service, for its jobs, such as postgres:17 ("${NONE}" removes it)`,
  ),
  sshConfig: v.pipe(
    option.text("ssh configuration file to use instead of yours"),
    v.metadata({ locates: true }),
  ),
  acceptNewHost: option.choice("Trust the key of a server that this machine has never connected to"),
  removeData: option.choice("remove the volume with all jobs and cases, and the images, too", {
    command: "down",
  }),
});
export type ServerFlags = v.InferOutput<typeof ServerFlagsSchema>;
