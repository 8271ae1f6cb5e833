import { toTar } from "../../../deploy/tar.ts";
import { change, type Releasing } from "./change.ts";
import { namesOf, onServer, SERVICE } from "./context.ts";
import type { ServerRecord, Settings } from "./record.ts";

const FOLDER = "/etc/caddy/services";
const CADDYFILE = `${FOLDER}/Caddyfile`;

/** The admin interface is a socket that only the proxy's container can reach. */
const MAIN = `{
	admin unix//tmp/admin.sock
}
import ${FOLDER}/*.site
`;

/** Content of a site's file once the service has no domain: Caddy rejects an empty file. */
const NO_SITE = "# no domain\n";

interface ProxyState {
  readonly network: boolean;
  /** Docker's word for the proxy's state; empty if there is none. */
  readonly proxy: string;
  readonly networks: readonly string[];
  readonly site: string;
}

/** Makes sure that the network exists which a service shares with the proxy and its database. */
export async function ensureNetwork(at: Releasing): Promise<void> {
  const { serviceName } = at.target;
  const { network } = namesOf(serviceName);
  if ((await readState(at)).network) return;
  await change(at, "network.create", { network }, () =>
    onServer(at, "The network was not created", 'docker network create --label "$1" "$2" >/dev/null', [
      `${SERVICE}=${serviceName}`,
      network,
    ]),
  );
}

/**
 * Serves a domain over HTTPS, or no longer. All services of the server share one Caddy, which gets and renews the
 * certificates; a new configuration takes effect without a lost request. Resolves with whether it changed.
 */
export async function serveDomain(at: Releasing, record: ServerRecord): Promise<boolean> {
  const before = await readState(at);
  const { network } = namesOf(at.target.serviceName);
  const { domain } = record;
  if (domain === undefined) {
    if (before.site === "") return false;
    await writeSite(at, "", before.site);
    return true;
  }
  if (before.proxy !== "running")
    await change(at, "proxy.start", { image: at.proxy.image }, () => startProxy(at, before.proxy !== ""));
  if (!before.networks.includes(network))
    await change(at, "proxy.connect", { network }, () =>
      onServer(at, "The proxy was not connected", 'docker network connect "$1" "$2"', [
        network,
        at.proxy.name,
      ]),
    );
  const site = siteOf(at.target.serviceName, domain, record.port);
  if (site === before.site) return false;
  await writeSite(at, site, before.site);
  return true;
}

/** Whether the proxy serves the domain of these settings. */
export async function isServed(context: Releasing, { domain, port }: Settings): Promise<boolean> {
  const { proxy, site } = await readState(context);
  return (
    domain !== undefined && proxy === "running" && site === siteOf(context.target.serviceName, domain, port)
  );
}

/** Takes the service out of the proxy's configuration; the last one removes the proxy. Certificates stay. */
export async function leaveProxy(at: Releasing): Promise<void> {
  const { network } = namesOf(at.target.serviceName);
  const before = await readState(at);
  if (before.site !== "") await writeSite(at, "", before.site);
  if (before.networks.includes(network))
    await change(at, "proxy.disconnect", { network }, () =>
      onServer(at, "The proxy was not disconnected", 'docker network disconnect --force "$1" "$2"', [
        network,
        at.proxy.name,
      ]),
    );
  if (before.network)
    await change(at, "network.remove", { network }, () =>
      onServer(at, "The network was not removed", 'docker network rm "$1" >/dev/null', [network]),
    );
  const served = before.networks.filter((name) => name.endsWith(".net") && name !== network);
  if (before.proxy === "" || served.length > 0) return;
  await change(at, "proxy.remove", {}, () =>
    onServer(at, "The proxy was not removed", 'docker rm --force "$1" >/dev/null', [at.proxy.name]),
  );
}

async function readState(context: Releasing): Promise<ProxyState> {
  const { serviceName } = context.target;
  const script = `docker network ls --format 'network {{.Name}}' || exit
    docker inspect --type container --format 'proxy {{.State.Status}}{{range $name, $_ := .NetworkSettings.Networks}} {{$name}}{{end}}' "$1" 2>/dev/null
    docker cp "$1:$2" - 2>/dev/null | tar -xOf - 2>/dev/null
    true`;
  const text = await onServer(context, "The proxy could not be read", script, [
    context.proxy.name,
    `${FOLDER}/${serviceName}.site`,
  ]);
  const lines = text.split("\n");
  const found = lines.find((line) => line.startsWith("proxy "))?.split(" ") ?? [];
  const rest = lines
    .filter((line) => !/^(proxy|network) /.test(line))
    .join("\n")
    .trim();
  return {
    network: lines.includes(`network ${namesOf(serviceName).network}`),
    proxy: found[1] ?? "",
    networks: found.slice(2),
    site: rest === "" || `${rest}\n` === NO_SITE ? "" : `${rest}\n`,
  };
}

/** Requests wait while one container takes over from the other; no connection to the service is used twice. */
function siteOf(serviceName: string, domain: string, port: number): string {
  return `${domain} {
	reverse_proxy ${serviceName}:${port} {
		lb_try_duration 30s
		lb_try_interval 100ms
		transport http {
			keepalive off
		}
	}
}
`;
}

async function startProxy(at: Releasing, exists: boolean): Promise<void> {
  const { name, image, httpPort, httpsPort } = at.proxy;
  const words = [
    ...["--name", name, "--init", "--restart", "always"],
    ...["--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=3"],
    ...["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--cap-add", "NET_BIND_SERVICE"],
    ...["--security-opt", "no-new-privileges"],
    ...["--publish", `${httpPort}:80`, "--publish", `${httpsPort}:443`, "--publish", `${httpsPort}:443/udp`],
    ...["--volume", `${name}-data:/data`, "--volume", `${name}-sites:${FOLDER}`],
    ...["--env", "XDG_DATA_HOME=/data", "--env", "XDG_CONFIG_HOME=/tmp", "--env", "HOME=/tmp"],
    ...[image, "caddy", "run", "--config", CADDYFILE],
  ];
  const script = `name=$1; exists=$2; shift 2
    [ "$exists" = yes ] || docker create "$@" >/dev/null || exit 1
    docker cp - "$name:${FOLDER}" >/dev/null && docker start "$name" >/dev/null && exit 0
    docker rm --force "$name" >/dev/null; exit 1`;
  await onServer(
    at,
    "The proxy for HTTPS was not started",
    script,
    [at.proxy.name, exists ? "yes" : "no", ...words],
    {
      input: file("Caddyfile", MAIN),
    },
  );
}

/** Writes a site and reloads the proxy; a site that it rejects is taken back, so that the others keep working. */
async function writeSite(at: Releasing, site: string, before: string): Promise<void> {
  const name = `${at.target.serviceName}.site`;
  const put = async (text: string) => {
    const script = `docker cp - "$1:${FOLDER}" >/dev/null || exit 1
      [ "$(docker inspect --format '{{.State.Status}}' "$1")" = running ] || exit 0
      for attempt in 1 2 3 4 5 6 7 8 9 10; do
        said=$(docker exec "$1" caddy reload --config ${CADDYFILE} 2>&1) && exit 0
        case $said in *"connection refused"*|*"no such file"*|*"connect:"*) sleep 1 ;; *) break ;; esac
      done
      echo "$said" >&2; exit 1`;
    await onServer(at, "The proxy does not accept its configuration", script, [at.proxy.name], {
      input: file(name, text === "" ? NO_SITE : text),
    });
  };
  await change(at, "proxy.site", { domain: site.split(" ")[0] }, async () => {
    try {
      await put(site);
    } catch (error) {
      await put(before).catch(() => undefined);
      throw error;
    }
  });
}

function file(path: string, text: string): AsyncIterable<Uint8Array> {
  const bytes = Buffer.from(text);
  return toTar([{ path, size: bytes.length, content: () => [bytes] }]);
}
