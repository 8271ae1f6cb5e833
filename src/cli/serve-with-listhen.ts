import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { type Listener, type ListenOptions, listen } from "listhen";
import { toNodeHandler } from "srvx/node";
import { messageOf } from "../core/base/error-text.ts";
import { isLoopback } from "../core/base/loopback.ts";
import type { HttpServer, Serve } from "../core/http/serve.ts";
import { keepCertificate, readCertificate } from "./dev-certificate.ts";
import { CliError } from "./errors.ts";

/** Milliseconds that requests get when a developer waits for the next start. */
const PATIENCE = 1000;
/** Days that a certificate is valid that listhen makes. */
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
  /** Folder of this user alone, for what listhen keeps. */
  readonly cacheDir: string;
  /** Path to open, and another one to show: each may sign somebody in, once. */
  path(): string | Promise<string>;
}

/**
 * Listens with listhen, which opens the browser, makes the certificate, the tunnel and the QR code. What it would do
 * unasked is off: another port where this one is taken, all addresses where the host is not known, the clipboard, an
 * end of its own at signals.
 */
export function createDevServe(options: DevServeOptions): Serve {
  return async (app, { host: given, port: wanted }) => {
    const host = given.replace(/^\[(.*)\]$/, "$1");
    const isPublic = host === "0.0.0.0" || host === "::";
    if (options.qr && !options.tunnel && (isLoopback(host) || host === "localhost")) {
      throw new CliError(`--qr shows the address to another device, which cannot reach ${host}`, {
        detail: "Add --host 0.0.0.0 for devices in your network, or --tunnel.",
      });
    }
    const port = await tryAddress(host, wanted);
    const tls = options.https
      ? readTls(options, isPublic ? LOCAL : [...new Set([...LOCAL, host])])
      : undefined;
    const baseURL = options.open ? await options.path() : "/";
    const listener = await inOwnFolder(options.cacheDir, () =>
      listen(toNodeHandler(app.fetch) as RequestListener, {
        hostname: host,
        port: {
          port,
          ports: [],
          portRange: [port, port],
          alternativePortRange: [port, port],
          random: false,
        },
        public: isPublic,
        autoClose: false,
        showURL: false,
        qr: false,
        clipboard: false,
        open: false,
        // It says nothing by itself.
        isTest: true,
        isProd: false,
        baseURL,
        https: tls?.https ?? false,
        tunnel: options.tunnel,
      }).catch((error: unknown) => {
        throw explain(error, port, options);
      }),
    );
    const actual = listener.address.port;
    if (actual !== port) {
      await listener.close();
      throw new CliError(`Browsers refuse to open port ${port}`, { detail: "Choose another one: --port." });
    }
    if (tls?.isNew && listener.https) await keepCertificate(options.dataDir, listener.https);
    if (options.qr || options.tunnel) await show(listener, options);
    if (options.open) await inOwnFolder(options.cacheDir, () => listener.open());
    return toServer(listener, actual, options.https);
  };
}

/**
 * Resolves with a port that is free, or rejects with the reason that Node gives: listhen gives none, and chooses another
 * port in place of 0 and of those that browsers refuse.
 */
function tryAddress(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => {
      const { port: free } = server.address() as AddressInfo;
      server.close(() => resolve(free));
    });
  });
}

type Tls = { readonly https: NonNullable<ListenOptions["https"]>; readonly isNew: boolean };

function readTls({ tlsCert, tlsKey, dataDir }: DevServeOptions, hosts: readonly string[]): Tls {
  if (tlsCert !== undefined && tlsKey !== undefined) {
    for (const file of [tlsCert, tlsKey]) {
      if (!existsSync(file)) throw new CliError(`There is no file ${file}`, { detail: "It must be PEM." });
    }
    return { https: { cert: tlsCert, key: tlsKey }, isNew: false };
  }
  const kept = readCertificate(dataDir, hosts);
  if (kept) return { https: kept, isNew: false };
  return { https: { domains: [...hosts], validityDays: VALIDITY }, isNew: true };
}

function explain(error: unknown, port: number, { tlsCert, tunnel }: DevServeOptions): unknown {
  const { code, name } = error as NodeJS.ErrnoException;
  // It was free a moment ago, or is one of those that browsers refuse.
  if (name === "GetPortError") {
    return new CliError(`Port ${port} cannot be used`, { detail: "Choose another one: --port." });
  }
  if (tlsCert !== undefined && (code?.startsWith("ERR_OSSL") || code?.startsWith("ERR_TLS"))) {
    return new CliError(`The certificate ${tlsCert} cannot be used with its key`, {
      detail: messageOf(error),
    });
  }
  return tunnel && code === undefined ? tunnelError(error) : error;
}

/** Prints all addresses, with a QR code of the first that another device can reach. */
async function show(listener: Listener, options: DevServeOptions): Promise<void> {
  try {
    await listener.showURL({ qr: options.qr, baseURL: await options.path() });
  } catch (error) {
    await listener.close();
    throw options.tunnel ? tunnelError(error) : error;
  }
}

function tunnelError(cause: unknown): CliError {
  return new CliError("The tunnel could not be opened", { detail: messageOf(cause), cause });
}

/**
 * listhen keeps programs that it runs in the folder for temporary files, and runs what it finds there under their
 * names: in a folder that other users can write to, that could be anything. Its tunnel also ends the process at signals,
 * before jobs can stop.
 */
async function inOwnFolder<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const { TMPDIR } = process.env;
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const before = new Map(signals.map((signal) => [signal, process.listeners(signal)]));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  process.env.TMPDIR = folder;
  try {
    return await work();
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    for (const [signal, known] of before) {
      for (const added of process.listeners(signal)) if (!known.includes(added)) process.off(signal, added);
    }
  }
}

function toServer(listener: Listener, port: number, isSecure: boolean): HttpServer {
  const { server } = listener;
  return {
    port,
    ...(isSecure && { protocol: "https" as const }),
    close: async (force) => {
      const closed = new Promise<void>((done) => server.close(() => done()));
      const cut = setTimeout(() => server.closeAllConnections(), force ? 0 : PATIENCE);
      await closed;
      clearTimeout(cut);
      // The tunnel.
      await listener.close();
    },
  };
}
