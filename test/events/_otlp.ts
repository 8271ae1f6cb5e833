import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { defineAgent } from "agent-control-service";
import { afterEach, beforeEach } from "vitest";

export interface Span {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: { key: string; value: { stringValue?: string } }[];
}

/** What an OTLP receiver has been sent since the test began. */
export interface Otlp {
  readonly spans: Span[];
  readonly metricNames: Set<string>;
}

/** An OTLP receiver for each test of a file, which the usual variables name. */
export function otlpReceiver(): Otlp {
  const spans: Span[] = [];
  const metricNames = new Set<string>();
  let receiver: Server;

  beforeEach(async () => {
    spans.length = 0;
    metricNames.clear();
    receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk) => void chunks.push(chunk));
      request.on("end", () => {
        const body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
        for (const resource of body.resourceSpans ?? []) {
          for (const scope of resource.scopeSpans) spans.push(...scope.spans);
        }
        for (const resource of body.resourceMetrics ?? []) {
          for (const scope of resource.scopeMetrics) {
            for (const metric of scope.metrics) metricNames.add(metric.name);
          }
        }
        response.writeHead(200, { "content-type": "application/json" }).end("{}");
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    const { port } = receiver.address() as AddressInfo;
    process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${port}`;
    process.env.OTEL_BSP_SCHEDULE_DELAY = "50";
    process.env.OTEL_SERVICE_NAME = "svc-under-test";
  });

  afterEach(() => {
    for (const name of Object.keys(process.env)) {
      if (name.startsWith("OTEL_")) delete process.env[name];
    }
    receiver.closeAllConnections();
    receiver.close();
  });
  return { spans, metricNames };
}

/** Its job has spans of every kind, and waits for an answer between them. */
export const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        await job.step("before", () => 1);
        const item = await job.openCase({ id: "c1", name: "One", description: "" });
        await item.step("in the case", () => 2);
        await item.ask({ question: "Continue?", fields: [{ name: "yes", field_type: "BooleanField" }] });
        await item.step("after the answer", () => 3);
        await item.close({});
        await job.step("at the end", () => 4);
        return { message: "done" };
      },
    },
  },
});
