import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { CliError } from "./errors.ts";

/** Milliseconds that a person may take in the browser. */
const LONGEST = 10 * 60_000;

/** Waits on a port of this machine for the code that the person's browser brings. */
export interface BrowserCode {
  readonly port: number;
  /** Rejects after ten minutes. */
  readonly code: Promise<string>;
  close(): void;
}

/** Only a request with `state` ends it: others on this machine may know the port. */
export async function listenForCode(state: string): Promise<BrowserCode> {
  let found: (code: string) => void = () => {};
  const server = createServer((request, response) => {
    const query = new URL(request.url ?? "/", "http://127.0.0.1").searchParams;
    const code = query.get("code");
    const isRight = request.method === "GET" && query.get("state") === state && code !== null;
    response.writeHead(isRight ? 200 : 404, {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "content-security-policy": "default-src 'none'",
      connection: "close",
    });
    response.end(
      isRight
        ? "<!doctype html><title>Signed in</title><p>Signed in. You can close this page.</p>"
        : "<!doctype html><title>Not found</title><p>This page does not exist.</p>",
    );
    if (isRight) found(code);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  let late: NodeJS.Timeout | undefined;
  const code = new Promise<string>((resolve, reject) => {
    found = resolve;
    late = setTimeout(
      () => reject(new CliError("Nobody has signed in", { detail: "Try again: svc login." })),
      LONGEST,
    );
  });
  return {
    port: (server.address() as AddressInfo).port,
    code,
    close() {
      clearTimeout(late);
      server.close();
      server.closeIdleConnections();
    },
  };
}
