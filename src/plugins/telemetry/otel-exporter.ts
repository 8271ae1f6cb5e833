import type { Attributes, HrTime } from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import type { Redactor } from "../../core/base/redactor.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { importPeer } from "../../deploy/import-peer.ts";
import { Histogram, type Metric } from "./metrics.ts";
import { wantsOtel } from "./wants-otel.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A finished span as the service knows it; times in milliseconds since the epoch. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: "server" | "client" | "internal";
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;
  /** The error message. */
  readonly error?: string | undefined;
}

export interface OtelExporter {
  export(span: FinishedSpan): void;
  close(): Promise<void>;
}

export interface OtelParts {
  readonly cwd: string;
  readonly env: Env;
  readonly environment: string;
  readonly redactor: Redactor;
  readonly metrics: readonly Metric[];
}

/** Sends spans and metrics by OTLP over HTTP with the official packages, which read the usual variables themselves. */
export async function createOtelExporter(parts: OtelParts): Promise<OtelExporter> {
  const { cwd, env } = parts;
  const wants = wantsOtel(env);
  const load = <T>(name: string): Promise<T> => importPeer<T>(`@opentelemetry/${name}`, { cwd });
  const resources = await load<typeof import("@opentelemetry/resources")>("resources");
  const resource = resources
    .defaultResource()
    .merge(
      resources.resourceFromAttributes({
        "service.name": "agent-control-service",
        "service.version": VERSION,
        "deployment.environment.name": parts.environment,
      }),
    )
    .merge(resources.detectResources({ detectors: [resources.envDetector] }));
  const spans = wants.traces ? await createSpanProcessor(load) : undefined;
  const meter = wants.metrics ? await createMeter(load, resource, parts) : undefined;
  return {
    export: (span) => spans?.onEnd(toReadableSpan(span, resource, parts.redactor)),
    close: async () => {
      await Promise.all([spans?.shutdown(), meter?.shutdown()]);
    },
  };
}

type Load = <T>(name: string) => Promise<T>;

async function createSpanProcessor(load: Load) {
  const sdk = await load<typeof import("@opentelemetry/sdk-trace-base")>("sdk-trace-base");
  const otlp =
    await load<typeof import("@opentelemetry/exporter-trace-otlp-http")>("exporter-trace-otlp-http");
  return new sdk.BatchSpanProcessor(new otlp.OTLPTraceExporter());
}

async function createMeter(load: Load, resource: Resource, { metrics, env }: OtelParts) {
  const sdk = await load<typeof import("@opentelemetry/sdk-metrics")>("sdk-metrics");
  const otlp = await load<typeof import("@opentelemetry/exporter-metrics-otlp-http")>(
    "exporter-metrics-otlp-http",
  );
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter: new otlp.OTLPMetricExporter(),
    ...intervalsOf(env),
  });
  const provider = new sdk.MeterProvider({ resource, readers: [reader] });
  const meter = provider.getMeter("agent-control-service", VERSION);
  for (const metric of metrics) {
    if (metric instanceof Histogram) {
      const { name, help: description, unit, bounds } = metric;
      const advice = { explicitBucketBoundaries: [...bounds] };
      const histogram = meter.createHistogram(name, { description, unit, advice });
      metric.listen((labels, value) => histogram.record(value, labels));
      continue;
    }
    const { name, help: description } = metric;
    const instrument =
      metric.type === "gauge"
        ? meter.createObservableGauge(name, { description })
        : meter.createObservableCounter(name, { description });
    instrument.addCallback(async (result) => {
      for (const sample of await metric.samples()) result.observe(sample.value, sample.labels);
    });
  }
  return provider;
}

/** How often metrics are sent, and how long that may take, by the usual variables; the SDK for Node would read them. */
function intervalsOf(env: Env): { exportIntervalMillis: number; exportTimeoutMillis: number } {
  const exportIntervalMillis = milliseconds(env.OTEL_METRIC_EXPORT_INTERVAL) ?? 60_000;
  const timeout = milliseconds(env.OTEL_METRIC_EXPORT_TIMEOUT) ?? 30_000;
  // The reader wants its time limit within the interval.
  return { exportIntervalMillis, exportTimeoutMillis: Math.min(timeout, exportIntervalMillis) };
}

/** A positive number in a variable; what is none means the default, as OpenTelemetry has it. */
function milliseconds(text: string | undefined): number | undefined {
  const number = Number(text);
  return text !== undefined && text.trim() !== "" && number > 0 ? number : undefined;
}

/** SpanKind and SpanStatusCode of @opentelemetry/api. */
const KIND = { internal: 0, server: 1, client: 2 } as const;
const STATUS = { unset: 0, error: 2 } as const;
const SAMPLED = 1;

/**
 * The SDK generates random ids and only for spans that start and end in one process; ours must outlive it.
 */
function toReadableSpan(span: FinishedSpan, resource: Resource, redactor: Redactor): ReadableSpan {
  const { traceId, spanId, parentId, error } = span;
  const attributes: Attributes = {};
  for (const [key, value] of Object.entries(span.attributes)) {
    if (value !== undefined) attributes[key] = redactor.json(value) as Attributes[string];
  }
  const message = error === undefined ? undefined : redactor.text(error);
  return {
    name: redactor.text(span.name),
    kind: KIND[span.kind],
    spanContext: () => ({ traceId, spanId, traceFlags: SAMPLED }),
    ...(parentId !== undefined && {
      parentSpanContext: { traceId, spanId: parentId, traceFlags: SAMPLED, isRemote: false },
    }),
    startTime: toHrTime(span.start),
    endTime: toHrTime(span.end),
    duration: toHrTime(Math.max(0, span.end - span.start)),
    status: message === undefined ? { code: STATUS.unset } : { code: STATUS.error, message },
    attributes,
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope: { name: "agent-control-service", version: VERSION },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function toHrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000);
  return [seconds, Math.round((milliseconds - seconds * 1000) * 1e6)];
}
