import { existsSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { messageOf } from "../../core/base/error-text.ts";
import { isLoopback } from "../../core/base/loopback.ts";
import { type Certificate, type HttpServer, type Serve, serveWithNode } from "../../core/http/serve.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { BAD_PORTS } from "./bad-ports.ts";
import { keepCertificate, readCertificate } from "./certificate.ts";
import { openTunnel, type Tunnel } from "./cloudflared.ts";
import { openBrowser } from "./open-browser.ts";

/** Milliseconds that requests get when a developer waits for the next start. */
const PATIENCE = 1000;
/** Days that a certificate is valid that is made here. */
const VALIDITY = 90;
const LOCAL = ["localhost", "127.0.0.1", "::1"];

export interface DevServeOptions {
  readonly https: boolean;
  /** Files of a certificate of one's own, PEM. */
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  /** Opens the service in a browser. */
  readonly open: boolean;
  /** Lets the internet reach the service through a tunnel of Cloudflare. */
  readonly tunnel: boolean;
  /** Shows the address as a QR code. */
  readonly qr: boolean;
  readonly dataDir: string;
  /** Folder of this user alone, for the program of the tunnel. */
  readonly cacheDir: string;
  /** Path to open, and another one to show: each may sign somebody in, once. */
  path(): string | Promise<string>;
}

/** Listens as `svc start` does, and for a developer: with a certificate, a tunnel, a QR code, a browser. */
export function createDevServe(options: DevServeOptions, context: CliContext): Serve {
  return async (app, given) => {
    const host = given.host.replace(/^\[(.*)\]$/, "$1");
    const isPublic = host === "0.0.0.0" || host === "::";
    if (options.qr && !options.tunnel && (isLoopback(host) || host === "localhost")) {
      throw new CliError(`--qr shows the address to another device, which cannot reach ${host}`, {
        detail: "Add --host 0.0.0.0 for devices in your network, or --tunnel.",
      });
    }
    if (BAD_PORTS.has(given.port)) {
      throw new CliError(`Browsers refuse to open port ${given.port}`, {
        detail: "Choose another one: --port.",
      });
    }
    const hosts = isPublic ? LOCAL : [...new Set([...LOCAL, host])];
    const tls = options.https ? await readTls(options, hosts) : undefined;
    const server = await serveWithNode(app, {
      ...given,
      host,
      patience: PATIENCE,
      ...(tls && { tls }),
    }).catch((error: unknown) => {
      throw explain(error, options);
    });
    const protocol = tls ? "https" : "http";
    const local = isPublic ? "127.0.0.1" : host;
    const origin = (name: string) =>
      `${protocol}://${name.includes(":") ? `[${name}]` : name}:${server.port}`;
    let tunnel: Tunnel | undefined;
    try {
      if (options.tunnel) tunnel = await tunnelTo(origin(local), options, context);
      if (options.qr || options.tunnel) {
        const reachable = isPublic ? addressesOf(host === "::").map(origin) : [];
        await show({ local: origin(local), network: reachable, tunnel: tunnel?.url }, options, context);
      }
    } catch (error) {
      await tunnel?.close();
      await server.close(true);
      throw error;
    }
    if (options.open) {
      const url = new URL(await options.path(), origin(local)).href;
      const problem = await openBrowser(url, context.env);
      if (problem !== undefined) context.note(`No browser was opened: ${problem}. Open ${url}`);
    }
    return withTunnel({ ...server, ...(tls && { protocol }) }, tunnel);
  };
}

async function readTls(
  { tlsCert, tlsKey, dataDir }: DevServeOptions,
  hosts: readonly string[],
): Promise<Certificate> {
  if (tlsCert !== undefined && tlsKey !== undefined) {
    const [cert, key] = [tlsCert, tlsKey].map((file) => {
      if (existsSync(file)) return readFileSync(file, "utf8");
      throw new CliError(`There is no file ${file}`, { detail: "It must be PEM." });
    });
    return { cert: cert!, key: key! };
  }
  const kept = readCertificate(dataDir, hosts);
  if (kept) return kept;
  const { createSelfSigned } = await import("./self-signed.ts");
  const made = createSelfSigned(hosts, { days: VALIDITY });
  await keepCertificate(dataDir, made);
  return made;
}

function explain(error: unknown, { tlsCert }: DevServeOptions): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (tlsCert === undefined || !/^ERR_(OSSL|TLS)/.test(code ?? "")) return error;
  return new CliError(`The certificate ${tlsCert} cannot be used with its key`, { detail: messageOf(error) });
}

async function tunnelTo(origin: string, { cacheDir }: DevServeOptions, context: CliContext): Promise<Tunnel> {
  try {
    return await openTunnel(origin, cacheDir, context.env);
  } catch (error) {
    throw new CliError("The tunnel could not be opened", { detail: messageOf(error), cause: error });
  }
}

/** Addresses of this machine in its networks. */
function addressesOf(withIpv6: boolean): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  // Those of a link alone need the name of the interface, which a URL cannot have.
  const usable = all.filter(
    ({ family, internal, scopeid }) => !internal && (family === "IPv4" || (withIpv6 && !scopeid)),
  );
  return usable.map(({ address }) => address);
}

interface Addresses {
  readonly local: string;
  readonly network: readonly string[];
  readonly tunnel: string | undefined;
}

/** Prints all addresses, with a QR code of the first that another device can reach. */
async function show(
  { local, network, tunnel }: Addresses,
  { qr, path }: DevServeOptions,
  { print }: CliContext,
): Promise<void> {
  const to = await path();
  const lines = [
    ...(tunnel === undefined ? [] : [["Tunnel", tunnel] as const]),
    ...network.map((url) => ["Network", url] as const),
    ["Local", local] as const,
  ].map(([label, url]) => ({ label, url: new URL(to, url).href }));
  const [first] = lines;
  print("");
  if (qr && first) {
    const { renderUnicodeCompact } = await import("uqr");
    for (const line of renderUnicodeCompact(first.url).split("\n")) print(`      ${line}`);
    print("");
  }
  for (const { label, url } of lines)
    print(`  ${label.padEnd(7)}  ${url}${qr && url === first?.url ? "  (QR code)" : ""}`);
  print("");
}

function withTunnel(server: HttpServer, tunnel: Tunnel | undefined): HttpServer {
  if (!tunnel) return server;
  return {
    ...server,
    close: async (force, linger) => {
      await server.close(force, linger);
      await tunnel.close();
    },
  };
}
