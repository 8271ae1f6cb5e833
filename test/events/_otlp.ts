import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { defineAgent } from "agent-control-service";
import { afterEach, beforeEach } from "vitest";

export interface Span {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  kind: number;
  attributes: { key: string; value: AttributeValue }[];
}

interface AttributeValue {
  stringValue?: string;
  intValue?: number;
  doubleValue?: number;
  arrayValue?: { values: AttributeValue[] };
}

/** An attribute's value as it was set. */
export function valueIn({ stringValue, intValue, doubleValue, arrayValue }: AttributeValue): unknown {
  if (arrayValue) return arrayValue.values.map(valueIn);
  return stringValue ?? doubleValue ?? Number(intValue);
}

export interface OtlpMetric {
  readonly name: string;
  readonly unit?: string;
  readonly histogram?: {
    readonly dataPoints: readonly {
      readonly attributes: Span["attributes"];
      readonly explicitBounds: readonly number[];
      readonly sum: number;
    }[];
  };
}

/** What an OTLP receiver has been sent since the test began. */
export interface Otlp {
  readonly spans: Span[];
  readonly metricNames: Set<string>;
  /** The newest of each name. */
  readonly metrics: Map<string, OtlpMetric>;
}

/** An OTLP receiver for each test of a file, which the usual variables name. */
export function otlpReceiver(): Otlp {
  const spans: Span[] = [];
  const metricNames = new Set<string>();
  const metrics = new Map<string, OtlpMetric>();
  let receiver: Server;

  beforeEach(async () => {
    spans.length = 0;
    metricNames.clear();
    metrics.clear();
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
            for (const metric of scope.metrics as OtlpMetric[]) {
              metricNames.add(metric.name);
              metrics.set(metric.name, metric);
            }
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
  return { spans, metricNames, metrics };
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
