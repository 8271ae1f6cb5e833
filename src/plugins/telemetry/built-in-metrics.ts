import { getOrMake } from "../../core/base/get-or-make.ts";
import type { ControlSystem } from "../../core/delivery/control-system.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { HookListener } from "../../core/entities/hooks.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { Attention } from "../../core/runs/attention/attention.ts";
import type { Budgets } from "../../core/runs/queue/budgets.ts";
import type { BackupState } from "../../core/store/backup/backups.ts";
import type { Store } from "../../core/store/store.ts";
import { genAiMetrics } from "./gen-ai.ts";
import { watchHttp } from "./http-metrics.ts";
import { Counter, Gauge, Histogram, type Metric } from "./metrics.ts";

export interface BuiltInParts {
  readonly hooks: HookListener;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly store: Store;
  readonly state: ServiceState;
  readonly control: ControlSystem;
  readonly budgets: Budgets;
  readonly attention: Attention;
  /** The backups of the store, if they are made. */
  readonly backups: () => BackupState | undefined;
  /** Dropped telemetry so far. */
  readonly dropped: () => number;
}

const SECONDS = [0.1, 1, 5, 30, 60, 300, 1800, 3600, 14_400, 86_400];

/** The service's own metrics; `stop` ends the collection. */
export function builtInMetrics(parts: BuiltInParts): {
  readonly metrics: Metric[];
  readonly stop: () => void;
} {
  const { hooks, jobs, cases, state, store, control } = parts;
  const started = new Counter("svc_jobs_created_total", "Accepted jobs");
  const ended = new Counter("svc_jobs_finished_total", "Jobs that ended, by agent and status");
  const duration = new Histogram(
    "svc_job_duration_seconds",
    "Time from a job's creation to its end",
    SECONDS,
  );
  const closed = new Counter("svc_cases_finished_total", "Cases that ended, by status");
  const steps = new Counter("svc_steps_total", "Recorded calls of agents, by kind and outcome");
  const attempts = new Counter(
    "svc_step_failed_attempts_total",
    "Failed attempts of steps that were retried",
  );
  const cost = new Counter("svc_cost_total", "Cost of finished jobs, by agent");
  const genAi = genAiMetrics();
  const http = watchHttp(() => state.port);

  const stops = [
    http.stop,
    hooks.on("job:created", ({ job }) => started.add({ agent: job.agent_name })),
    hooks.on("job:finished", ({ job }) => {
      ended.add({ agent: job.agent_name, status: job.status });
      if (job.total_cost > 0) cost.add({ agent: job.agent_name }, job.total_cost);
      const seconds = (Date.parse(job.finished_at ?? job.updated_at) - Date.parse(job.created_at)) / 1000;
      duration.observe({ agent: job.agent_name }, seconds);
    }),
    hooks.on("case:changed", ({ case: item, previous }) => {
      if (isTerminal(item.status) && !isTerminal(previous.status)) closed.add({ status: item.status });
    }),
    hooks.on("run:entry", ({ entry }) => {
      if (entry.type === "attempt") attempts.add();
      if (entry.type === "call") steps.add({ call: entry.call, outcome: entry.error ? "error" : "ok" });
      if (entry.type === "call" || entry.type === "attempt") genAi.observe(entry);
    }),
  ];

  const byStatus = (counts: Record<string, number>) =>
    Object.entries(counts).map(([status, value]) => ({ labels: { status }, value }));
  const one = (value: number) => [{ labels: {}, value }];
  const metrics: Metric[] = [
    new Gauge("svc_jobs", "Jobs in the store, by status", async () => byStatus(await jobs.countBy("status"))),
    new Gauge("svc_cases", "Cases in the store, by status", async () =>
      byStatus(await cases.countBy("status")),
    ),
    started,
    ended,
    duration,
    closed,
    steps,
    attempts,
    cost,
    ...genAi.metrics,
    ...http.metrics,
    new Gauge("svc_events_waiting", "Messages waiting to be sent", async () =>
      one((await control.counts()).waiting),
    ),
    new Gauge("svc_events_dead", "Dead letters", async () => one((await control.counts()).dead)),
    new Gauge(
      "svc_events_delivered_total",
      "Delivered messages, by target",
      () =>
        control
          .status()
          .targets.map(({ name, delivered }) => ({ labels: { target: name }, value: delivered })),
      "counter",
    ),
    new Gauge("svc_events_target_up", "Whether deliveries to a target succeed", () =>
      control.status().targets.map(({ name, state }) => ({
        labels: { target: name },
        value: state === "ok" ? 1 : 0,
      })),
    ),
    new Gauge("svc_telemetry_dropped_total", "Dropped telemetry", () => one(parts.dropped()), "counter"),
    new Gauge("svc_store_writable", "Whether the store can write", () =>
      one(store.health().writable ? 1 : 0),
    ),
    new Gauge("svc_storage_lag_seconds", "Age of the oldest write that is not in the storage yet", () => {
      const { shipping } = store.health();
      return shipping === undefined ? [] : one(shipping.lag);
    }),
    new Gauge("svc_storage_unshipped_bytes", "Bytes of writes that are not in the storage yet", () => {
      const { shipping } = store.health();
      return shipping === undefined ? [] : one(shipping.bytes);
    }),
    new Gauge("svc_backup_lag_seconds", "Time since the last backup of the store", () => {
      const lag = parts.backups()?.lag ?? null;
      return lag === null ? [] : one(lag);
    }),
    new Gauge("svc_backup_ok", "Whether the last attempt to back up the store succeeded", () => {
      const backup = parts.backups();
      return backup === undefined ? [] : one(backup.error === null ? 1 : 0);
    }),
    new Gauge("svc_agent_budget", "Budgets of agents, by period", async () =>
      (await parts.budgets.list()).map(({ agent, period, budget }) => ({
        labels: { agent, period },
        value: budget,
      })),
    ),
    new Gauge("svc_agent_spent", "What agents have spent of their budgets, by period", async () =>
      (await parts.budgets.list()).map(({ agent, period, spent }) => ({
        labels: { agent, period },
        value: spent,
      })),
    ),
    new Gauge("svc_attention", "What needs a person, by kind and agent", async () => {
      const counts = new Map<string, { labels: { kind: string; agent: string }; value: number }>();
      for (const { kind, agent, count } of await parts.attention.read()) {
        const labels = { kind, agent: agent ?? "" };
        getOrMake(counts, JSON.stringify(labels), () => ({ labels, value: 0 })).value += count;
      }
      return [...counts.values()];
    }),
    new Gauge("svc_uptime_seconds", "Time since the start", () => one(state.uptime())),
    new Gauge("process_resident_memory_bytes", "Memory of the process", () => one(process.memoryUsage.rss())),
    new Gauge(
      "process_cpu_seconds_total",
      "CPU time of the process",
      () => {
        const { user, system } = process.cpuUsage();
        return one((user + system) / 1e6);
      },
      "counter",
    ),
  ];
  return {
    metrics,
    stop: () => {
      for (const stop of stops) stop();
    },
  };
}
