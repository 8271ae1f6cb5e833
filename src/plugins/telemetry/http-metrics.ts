import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Counter, Histogram, type Metric } from "./metrics.ts";

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly server: Server;
}

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Counts requests of the server on a port. Node tells of them by itself: a middleware would cost each request more
 * than its route does.
 */
export function watchHttp(port: () => number): { readonly metrics: Metric[]; readonly stop: () => void } {
  const requests = new Counter("svc_http_requests_total", "Requests, by method and status");
  const duration = new Histogram("svc_http_request_duration_seconds", "Time to answer a request", SECONDS);
  const begun = new WeakMap<IncomingMessage, number>();

  const onStart = (message: unknown): void => {
    begun.set((message as Exchange).request, performance.now());
  };
  const onFinish = (message: unknown): void => {
    const { request, response, server } = message as Exchange;
    const address = server.address();
    if (typeof address !== "object" || address?.port !== port()) return;
    const method = request.method ?? "";
    requests.add({ method, status: String(response.statusCode) });
    const start = begun.get(request);
    if (start !== undefined) duration.observe({ method }, (performance.now() - start) / 1000);
  };
  subscribe("http.server.request.start", onStart);
  subscribe("http.server.response.finish", onFinish);
  return {
    metrics: [requests, duration],
    stop: () => {
      unsubscribe("http.server.request.start", onStart);
      unsubscribe("http.server.response.finish", onFinish);
    },
  };
}
