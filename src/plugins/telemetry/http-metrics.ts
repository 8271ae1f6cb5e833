import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Counter, type Distribution, Histogram, type Metric } from "./metrics.ts";

/** When a request arrived; stored on the request itself, which costs less than a map. */
const BEGUN = Symbol("begun");

interface Exchange {
  readonly request: IncomingMessage & { [BEGUN]?: number };
  readonly response: ServerResponse;
  readonly server: Server;
}

/** The counters of a method; looked up by name once, not for each request. */
interface MethodSeries {
  readonly statuses: Map<number, { value: number }>;
  readonly duration: Distribution;
}

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Counts requests of the server on a port, with Node's own diagnostics: a middleware would cost each request
 * more than its route does.
 */
export function watchHttp(port: () => number): { readonly metrics: Metric[]; readonly stop: () => void } {
  const requests = new Counter("svc_http_requests_total", "Requests, by method and status");
  const duration = new Histogram("svc_http_request_duration_seconds", "Time to answer a request", SECONDS);

  const own = new WeakMap<Server, boolean>();
  const methods = new Map<string, MethodSeries>();

  const seriesOf = (method: string): MethodSeries => {
    const series = { statuses: new Map(), duration: duration.series({ method }) };
    methods.set(method, series);
    return series;
  };

  /** Read once per server: its address is a system call. */
  const isOwn = (server: Server): boolean => {
    const known = own.get(server);
    if (known !== undefined) return known;
    const address = server.address();
    const answer = typeof address === "object" && address?.port === port();
    own.set(server, answer);
    return answer;
  };

  const onStart = (message: unknown): void => {
    (message as Exchange).request[BEGUN] = performance.now();
  };
  const onFinish = (message: unknown): void => {
    const { request, response, server } = message as Exchange;
    if (!isOwn(server)) return;
    const method = request.method ?? "";
    const series = methods.get(method) ?? seriesOf(method);
    const { statusCode } = response;
    let count = series.statuses.get(statusCode);
    if (!count) {
      count = requests.series({ method, status: String(statusCode) });
      series.statuses.set(statusCode, count);
    }
    count.value++;
    const start = request[BEGUN];
    if (start !== undefined) series.duration.observe((performance.now() - start) / 1000);
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
