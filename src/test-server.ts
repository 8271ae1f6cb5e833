import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOptions } from "./core/service/options.ts";
import type { Service } from "./core/service/service.ts";
import { createMemoryStore } from "./core/store/memory-store.ts";
import { createServer } from "./server.ts";
import { sharedRsaKey } from "./testing/rsa-key.ts";

/** A service for one test: closed, and its data folder removed, when it goes out of scope. */
export interface TestServer extends AsyncDisposable {
  readonly service: Service;
  /** Address that it listens on. */
  readonly url: string;
  /** Its API key. */
  readonly key: string;
  readonly dataDir: string;
  /** Its log so far, one line an entry. */
  readonly logs: readonly string[];
  /** Sends a request with the API key; a path is taken from `url`, an object as `json` is the body. */
  request(path: string, init?: TestRequest): Promise<Response>;
}

export interface TestRequest extends RequestInit {
  /** Sent as the JSON body, with POST unless another method is given. */
  readonly json?: unknown;
  /** Sent instead of the right key; `null` sends none. */
  readonly key?: string | null;
}

/**
 * Starts a service on a free port of 127.0.0.1, with a known key, an empty data folder and, unless `store` is
 * given (`undefined` for the embedded one), a store in memory.
 *
 * @example
 * await using server = await testServer({ agents: [auditor] });
 * const response = await server.request("/agents");
 */
export async function testServer(options: ServerOptions): Promise<TestServer> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "agent-control-service-")));
  const logs: string[] = [];
  const key = options.apiKey ?? "test-key-of-this-server";
  const service = createServer({
    store: createMemoryStore,
    strictSteps: true,
    build: "test",
    logLevel: "info",
    logFormat: "text",
    logTo: (line) => void logs.push(line),
    rsaPrivateKey: sharedRsaKey(),
    ...options,
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 0,
    apiKey: key,
    dataDir,
  });

  const dispose = async (): Promise<void> => {
    try {
      await service.close();
    } finally {
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    }
  };

  try {
    await service.listen();
  } catch (error) {
    await dispose().catch(() => {});
    throw error;
  }
  const url = service.url as string;
  return {
    service,
    url,
    key,
    dataDir,
    logs,
    request: (path, init) => fetch(new URL(path, url), toRequestInit(init, key)),
    [Symbol.asyncDispose]: dispose,
  };
}

/** What `fetch` and `Request` take. */
export function toRequestInit({ json, key, ...init }: TestRequest = {}, rightKey: string): RequestInit {
  const headers = new Headers(init.headers);
  if (key !== null && !headers.has("x-api-key")) headers.set("x-api-key", key ?? rightKey);
  if (json === undefined) return { ...init, headers };
  if (!headers.has("content-type")) headers.set("content-type", "application/json");
  return { method: "POST", ...init, headers, body: JSON.stringify(json) };
}
