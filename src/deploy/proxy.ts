import { type IncomingMessage, request as overHttp } from "node:http";
import { Agent, request as overHttps } from "node:https";
import type { Socket } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type ConnectionOptions, connect as startTls } from "node:tls";
import { isLoopback } from "../core/base/loopback.ts";
import { DeployError } from "./errors.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A proxy, and the variable that names it. */
export interface HttpProxy {
  readonly url: URL;
  /** For people: without user and password. */
  readonly host: string;
  readonly variable: string;
}

/**
 * The proxy for an https address, as other tools read it: `HTTPS_PROXY`, else `ALL_PROXY`, unless `NO_PROXY`
 * names the host. Never for this machine, and never for plain http, which no provider uses.
 */
export function proxyFor(address: string, env: Env): HttpProxy | undefined {
  const { protocol, hostname, port } = new URL(address);
  const except = env.NO_PROXY ?? env.no_proxy ?? "";
  if (protocol !== "https:" || isLoopback(hostname) || isExcepted(hostname, port || "443", except))
    return undefined;
  const variable = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].find((name) => env[name]);
  if (variable === undefined) return undefined;
  const text = env[variable] ?? "";
  const full = text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new DeployError("usage", `${variable} is not the URL of an http proxy`, {
      fix: `Set it to a URL such as http://proxy.example:3128, or unset ${variable}`,
    });
  return { url, host: url.host, variable };
}

/** Whether `NO_PROXY` names a host: itself, a domain above it, with or without a port; `*` names all. */
function isExcepted(host: string, port: string, list: string): boolean {
  return list
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      const [name = "", only] = entry.toLowerCase().split(/:(?=\d+$)/);
      if (only !== undefined && only !== port) return false;
      const domain = name.replace(/^\*?\./, "");
      return name === "*" || host === domain || host.endsWith(`.${domain}`);
    });
}

/**
 * `fetch` that uses the environment's proxy if there is one for the address; Node 20's own does not. It does
 * not follow redirects through a proxy.
 */
export function proxiedFetch(env: Env, plain: typeof fetch): typeof fetch {
  return async (input, init) => {
    const address = input instanceof Request ? input.url : String(input);
    const proxy = proxyFor(address, env);
    if (proxy === undefined) return plain(input, init);
    const streamed = init?.body instanceof ReadableStream ? { duplex: "half" } : {};
    return send(new Request(input, { ...init, ...streamed } as RequestInit), proxy, "duplex" in streamed);
  };
}

/** An agent of `node:https` whose connections go through a proxy. */
export class TunnelAgent extends Agent {
  readonly #proxy: HttpProxy;

  constructor(proxy: HttpProxy) {
    super({ keepAlive: false });
    this.#proxy = proxy;
  }

  /** Node takes the socket from the callback if none is returned. */
  override createConnection(
    options: ConnectionOptions,
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const { host = "", port = 443 } = options;
    openTunnel(this.#proxy, host, port)
      .then((socket) =>
        callback?.(null, startTls({ ...options, socket, servername: options.servername || host })),
      )
      .catch((error: Error) => callback?.(error, undefined as never));
    return undefined;
  }
}

/** Asks a proxy for a connection to a host (RFC 9110, section 9.3.6). */
function openTunnel({ url, host: name }: HttpProxy, host: string, port: number | string): Promise<Socket> {
  const begin = url.protocol === "https:" ? overHttps : overHttp;
  const target = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const headers = {
    host: target,
    ...(login === ":" ? {} : { "proxy-authorization": `Basic ${Buffer.from(login).toString("base64")}` }),
  };
  return new Promise((resolve, reject) => {
    const refuse = (message: string, cause?: unknown) =>
      reject(Object.assign(new Error(message, { cause }), { code: "ERR_PROXY" }));
    const asked = begin({
      hostname: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port || (url.protocol === "https:" ? 443 : 80),
      method: "CONNECT",
      path: target,
      headers,
      agent: false,
    });
    asked.setTimeout(30_000, () => asked.destroy(new Error("it did not respond within 30 s")));
    asked.once("error", (error) => refuse(`the proxy ${name} failed: ${error.message}`, error));
    asked.once("connect", (answer: IncomingMessage, socket: Socket) => {
      socket.setTimeout(0);
      if (answer.statusCode === 200) return resolve(socket);
      socket.destroy();
      refuse(
        answer.statusCode === 407
          ? `the proxy ${name} requires a login: add it to the variable, as http://user:password@${name}`
          : `the proxy ${name} responded with ${answer.statusCode} to a connection to ${target}`,
      );
    });
    asked.end();
  });
}

async function send(request: Request, proxy: HttpProxy, streamed: boolean): Promise<Response> {
  const { url, method, body, signal } = request;
  const headers = Object.fromEntries(request.headers);
  const bytes = body === null || streamed ? undefined : Buffer.from(await request.arrayBuffer());
  if (bytes !== undefined) headers["content-length"] = String(bytes.length);
  const asked = overHttps(url, { method, headers, agent: new TunnelAgent(proxy), signal });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    asked.once("response", resolve);
    asked.once("error", reject);
  });
  if (body !== null && streamed)
    await Promise.all([pipeline(Readable.fromWeb(body as never), asked), answered]);
  else asked.end(bytes);
  const answer = await answered;
  const status = answer.statusCode ?? 200;
  const isBare = method === "HEAD" || [204, 205, 304].includes(status);
  if (isBare) answer.resume();
  return new Response(isBare ? null : (Readable.toWeb(answer) as unknown as ReadableStream<Uint8Array>), {
    status,
    headers: Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    ),
  });
}
