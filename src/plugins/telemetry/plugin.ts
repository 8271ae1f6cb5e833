import { LOG_LEVELS, type LogLevel } from "../../core/base/log.ts";
import type { Fetch } from "../../core/delivery/post-json.ts";
import { defineRoute } from "../../core/http/route.ts";
import type { Telemetry, TelemetrySeverity } from "../../core/models/telemetry.ts";
import type { Plugin, PluginContext } from "../../core/service/plugin.ts";
import {
  AGENTS,
  ATTENTION,
  BACKUPS,
  BUDGETS,
  CASES,
  CONTROL_SYSTEM,
  EVENTS,
  JOBS,
  OPTIONS,
  REDACTOR,
  ROUTER,
  SERVICE_STATE,
  STORE,
} from "../../core/service/tokens.ts";
import { builtInMetrics } from "./built-in-metrics.ts";
import { JOB_TRACE_TABLE } from "./job-traces.ts";
import { type Metric, toPrometheus } from "./metrics.ts";
import { type ResolvedTelemetryOptions, resolveTelemetryOptions, type TelemetryOptions } from "./options.ts";
import { TelemetryBuffer, within } from "./telemetry-buffer.ts";
import { createSender, createTelemetryTarget, TELEMETRY } from "./telemetry-target.ts";
import { wantsOtel } from "./wants-otel.ts";

const SEVERITY: Readonly<Record<LogLevel, TelemetrySeverity>> = {
  debug: "debug",
  info: "info",
  warn: "warning",
  error: "error",
};
/** Time that pending spans and metrics get when the service closes, milliseconds. */
const EXPORT_GRACE = 2000;
/** Components whose log lines are about sending itself: sending those would loop forever. */
const SENDERS = new Set(["events", "telemetry", "webhooks"]);

/**
 * Sends monitoring data of agents and of the service itself to the control system, and serves metrics at
 * /metrics.
 */
export function telemetry(options: TelemetryOptions = {}, fetch: Fetch = globalThis.fetch): Plugin {
  return {
    name: "telemetry",
    dependsOn: ["events"],
    tables: [JOB_TRACE_TABLE],
    async setup(context) {
      const resolved = resolveTelemetryOptions(options);
      const pipeline = createPipeline(context, resolved, fetch);
      const { metrics, stop } = builtInMetrics({
        hooks: context.hooks,
        jobs: context.get(JOBS),
        cases: context.get(CASES),
        store: context.get(STORE),
        state: context.get(SERVICE_STATE),
        control: context.get(CONTROL_SYSTEM),
        backups: context.get(BACKUPS),
        budgets: context.get(BUDGETS),
        attention: context.get(ATTENTION),
        dropped: () => pipeline?.buffer.dropped ?? 0,
      });
      context.onClose(stop);
      addMetricsRoute(context, metrics);
      if (pipeline) reportOwn(context, resolved, pipeline.accept, metrics);
      await exportByOtel(context, metrics);
    },
  };
}

/**
 * OpenTelemetry if the usual variables enable it; the service runs without it if its packages are missing.
 */
async function exportByOtel(context: PluginContext, metrics: readonly Metric[]): Promise<void> {
  const { env } = process;
  const wants = wantsOtel(env);
  if (!wants.traces && !wants.metrics) return;
  const { environment } = context.get(OPTIONS);
  const redactor = context.get(REDACTOR);
  try {
    const { createOtelExporter } = await import("./otel-exporter.ts");
    const exporter = await createOtelExporter({ cwd: process.cwd(), env, environment, redactor, metrics });
    context.onClose(() => within(EXPORT_GRACE, exporter.close()).catch(() => {}));
    if (!wants.traces) return;
    const { traceEverything } = await import("./tracing.ts");
    const { createTraceSampler } = await import("./trace-sampler.ts");
    const sampler = await createTraceSampler({ cwd: process.cwd(), env, log: context.log });
    traceEverything(context, sampler, (span) => exporter.export(span));
  } catch (error) {
    context.log.warn("OpenTelemetry is enabled by OTEL_* variables but cannot be used", { error });
  }
}

type Accept = (telemetry: Telemetry, stream?: string) => void;

function createPipeline(
  { get, hooks, log, onClose }: PluginContext,
  { sample, interval, buffer: size }: ResolvedTelemetryOptions,
  fetch: Fetch,
): { readonly accept: Accept; readonly buffer: TelemetryBuffer } | undefined {
  const { account } = get(OPTIONS);
  if (!account) return undefined;
  const redactor = get(REDACTOR);
  const events = get(EVENTS);
  const send = createSender(account, fetch);
  events.addTarget(createTelemetryTarget(send));
  const buffer = new TelemetryBuffer({
    size,
    interval: interval * 1000,
    send: (telemetry) => send({ ...telemetry, details: redactor.json(telemetry.details) }),
    onFailure: (error) => log.warn("telemetry cannot be sent and is dropped", { error }),
  });
  onClose(() => buffer.close());
  const accept: Accept = (telemetry, stream = "exceptions") => {
    if (telemetry.type !== "exceptions") {
      if (Math.random() < sample[telemetry.severity]) buffer.add(telemetry);
      return;
    }
    events
      .post(TELEMETRY, { stream, type: telemetry.type, body: telemetry })
      .catch((error: unknown) => log.error("an exception could not be stored for sending", { error }));
  };
  onClose(hooks.on("telemetry", ({ telemetry, job_id }) => accept(telemetry, job_id)));
  return { accept, buffer };
}

/** Metrics, log lines and exceptions that agents need not send themselves. */
function reportOwn(
  { get, hooks, onClose, participate }: PluginContext,
  { metricsInterval, logs }: ResolvedTelemetryOptions,
  accept: Accept,
  metrics: readonly Metric[],
): void {
  const agents = get(AGENTS);
  const own = get(SERVICE_STATE).info().id;
  // In the transaction that ends the job: a crash right after it must not lose the reason.
  participate(
    (change, tx) => {
      if (change.kind !== "job:finished" || change.job.status !== "failed") return undefined;
      const { job } = change;
      const body: Telemetry = {
        agentId: agents.find(job.agent_name)?.id ?? own,
        type: "exceptions",
        category: "application",
        severity: "error",
        details: { job_id: job.id, agent: job.agent_name, error: job.error, reason: job.stop_reason },
      };
      return get(EVENTS)
        .post(TELEMETRY, { stream: job.id, type: body.type, body }, tx)
        .then(() => {});
    },
    ["job:finished"],
  );
  if (logs !== "none") {
    const least = LOG_LEVELS.indexOf(logs);
    onClose(
      hooks.on("log", ({ time, level, message, fields }) => {
        if (LOG_LEVELS.indexOf(level) < least || SENDERS.has(String(fields.plugin))) return;
        accept({
          agentId: own,
          type: "logs",
          category: "system",
          severity: SEVERITY[level],
          details: { time, message, ...fields },
        });
      }),
    );
  }
  if (metricsInterval <= 0) return;
  const timer = setInterval(() => {
    void readAll(metrics).then(
      (details) => accept({ agentId: own, type: "metrics", category: "system", severity: "info", details }),
      () => {},
    );
  }, metricsInterval * 1000);
  timer.unref();
  onClose(() => clearInterval(timer));
}

/** All numbers by name and labels; histogram buckets are only for Prometheus. */
async function readAll(metrics: readonly Metric[]): Promise<Record<string, number>> {
  const samples = (await Promise.all(metrics.map((metric) => metric.samples()))).flat();
  const kept = samples.filter(({ name }) => !name.endsWith("_bucket"));
  return Object.fromEntries(
    kept.map(({ name, labels, value }) => {
      const parts = Object.entries(labels).map(([key, text]) => `${key}=${text}`);
      return [parts.length > 0 ? `${name}{${parts.join(",")}}` : name, value];
    }),
  );
}

function addMetricsRoute({ get }: PluginContext, metrics: readonly Metric[]): void {
  const type = "text/plain; version=0.0.4; charset=utf-8";
  get(ROUTER).add(
    defineRoute({
      method: "GET",
      path: "/metrics",
      auth: "key",
      needs: "view",
      summary: "Metrics in Prometheus' text format",
      description: "Counters, gauges and histograms of the service, of its jobs and of its store.",
      tag: "Service",
      responses: { 200: { description: "The metrics", contentType: "text/plain" } },
      handler: async () => new Response(await toPrometheus(metrics), { headers: { "content-type": type } }),
    }),
  );
}
