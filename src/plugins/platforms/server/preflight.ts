import { lookup } from "node:dns/promises";
import type { Finding } from "../../../deploy/platform.ts";
import { listContainers, servingOf } from "./containers.ts";
import { type Context, onServer, RECORD, SERVICE } from "./context.ts";
import { type Settings, wantedSettings } from "./record.ts";

/** Kilobytes below which an image may not fit. */
const LITTLE = 1024 * 1024;

/** Checks connection, Docker, disk and port; changes nothing. */
export async function preflight(context: Context): Promise<Finding[]> {
  const { ssh, target } = context;
  const script = `version=$(docker version --format '{{.Server.Version}} {{.Server.Arch}}') || exit
    root=$(docker info --format '{{.DockerRootDir}}'); free=$(df -Pk "$root" 2>/dev/null | awk 'NR == 2 { print $4 }')
    echo "$version \${free:--}"`;
  const text = await onServer(context, `${ssh.host} is not ready`, script);
  const [version = "", arch = "", free = "-"] = text.split(/\s+/);
  const live = servingOf(await listContainers(context));
  const settings = wantedSettings(target, target.port, live?.record);
  return [
    { level: "ok", subject: "Server", message: `${ssh.host}, Docker ${version}, ${arch}` },
    ...diskFindings(free),
    ...(target.places === undefined || target.places === 1 ? [] : sharedFindings(settings)),
    ...(settings.domain === undefined
      ? [plainFinding(settings.bind, target.places)]
      : await domainFindings(context, settings.domain)),
    ...(live === undefined && settings.domain === undefined
      ? await portFindings(context, target.port, settings.bind)
      : []),
  ];
}

/** What one of several servers cannot have. */
function sharedFindings({ domain, postgres }: Settings): Finding[] {
  const found: Finding[] = [];
  if (domain !== undefined)
    found.push({
      level: "error",
      subject: "Domain",
      message: `several servers cannot serve ${domain}: a check of its certificate would reach any of them`,
      fix: "Give --domain none, and --public-url with the address of the load balancer in front of them, which has the certificate",
    });
  if (postgres !== undefined)
    found.push({
      level: "error",
      subject: "Database",
      message: "several servers need one database, and each would run a Postgres of its own",
      fix: "Give --postgres none, and the secret SERVICE_DATABASE_URL of a database that all of them reach",
    });
  return found;
}

function diskFindings(free: string): Finding[] {
  const kilobytes = Number(free);
  if (!Number.isFinite(kilobytes) || kilobytes > LITTLE) return [];
  return [
    {
      level: "warning",
      subject: "Disk",
      message: `${Math.round(kilobytes / 1024)} MB are free on the server`,
      fix: "Free space on the server: docker system df shows what Docker uses",
    },
  ];
}

/** Whether a port is open for the server itself only. */
export function isLocal(bind: string | undefined): boolean {
  return bind !== undefined && /^(127\.|::1$)/.test(bind);
}

function plainFinding(bind: string | undefined, places = 1): Finding {
  if (isLocal(bind)) return { level: "ok", subject: "Port", message: `open on ${bind} only` };
  // A domain is refused there.
  if (places > 1)
    return {
      level: "warning",
      subject: "HTTPS",
      message: "the load balancer reaches the service over plain http: keys and data can be read on the way",
      fix: "Use a private network, with its address as --bind, and let only the load balancer reach the port",
    };
  return {
    level: "warning",
    subject: "HTTPS",
    message: "without a domain the service is reached over plain http: keys and data can be read on the way",
    fix: "Give a --domain, or --bind 127.0.0.1 with a proxy of your own in front",
  };
}

/** A service must not take the port of another one, or of a program that runs there without Docker. */
export async function portFindings(
  context: Context,
  port: number,
  bind: string | undefined,
): Promise<Finding[]> {
  // Listening sockets, by address and port in hexadecimal; an address of zeros is all of them.
  const script = `found=$(docker ps --filter "publish=$1" --format '{{.Names}} {{.Label "'"$2"'"}}' | head -n 1)
    [ -n "$found" ] || found=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$3" -v any="$4" '
      $4 == "0A" { split($2, at, ":"); if (at[2] == port && (any == "yes" || at[1] ~ /^0+$/)) { print "-"; exit } }')
    echo "$found"`;
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const text = await onServer(context, "The ports of the server could not be read", script, [
    ...[String(port), SERVICE, hex, bind === undefined ? "yes" : "no"],
  ]);
  const [name, service] = text.split("\n")[0]?.split(" ") ?? [];
  if (!name) return [];
  const user = name === "-" ? "a program there" : service ? `the service ${service}` : `container ${name}`;
  return [
    {
      level: "error",
      subject: "Port",
      message: `port ${port} of the server is used by ${user}`,
      fix: "Choose another with --port, or give a --domain: those share one port",
    },
  ];
}

/** A domain belongs to one service of the server, and its name must lead there before it gets a certificate. */
async function domainFindings(context: Context, domain: string): Promise<Finding[]> {
  const script = `docker ps --all --filter "label=$2" --format '{{.Label "'"$1"'"}} {{.Label "'"$2"'"}}'`;
  const text = await onServer(context, "The services of the server could not be read", script, [
    SERVICE,
    RECORD,
  ]);
  const other = text
    .split("\n")
    .map((line) => /^(\S+) (.*)$/.exec(line) ?? [])
    .find(
      ([, name, record]) => name !== context.target.serviceName && record?.includes(`"domain":"${domain}"`),
    );
  if (other?.[1] !== undefined)
    return [
      {
        level: "error",
        subject: "Domain",
        message: `${domain} belongs to the service ${other[1]} of this server`,
        fix: "Choose another with --domain",
      },
    ];
  const leads = await lookup(domain).then(
    () => true,
    () => false,
  );
  if (leads) return [{ level: "ok", subject: "Domain", message: domain }];
  return [
    {
      level: "warning",
      subject: "Domain",
      message: `${domain} cannot be resolved: there is no certificate before its name leads to the server`,
      fix: `Create an A or AAAA record for ${domain} with the server's address`,
    },
  ];
}
