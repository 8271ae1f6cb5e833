import { readFileSync } from "node:fs";
import { events, telemetry } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { EntityStatusSchema } from "../../src/core/models/entity-status.ts";
import { EMITTER } from "../../src/core/service/inner-tokens.ts";
import { CONTROL_SYSTEM, REDACTOR } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { sharedControl } from "./_control.ts";
import { workThrough } from "./_work.ts";

const shared = sharedControl();

interface TelemetryBody {
  agentId: string;
  workspace_id: string;
  eventType: string;
  severity: string;
  eventCategory: string;
  details: Record<string, unknown>;
}

async function telemetryOf(): Promise<TelemetryBody[]> {
  const items = (await shared().received()).filter((item) => item.kind === "telemetry");
  expect(items.flatMap((item) => item.problems)).toEqual([]);
  return items.map((item) => item.body as TelemetryBody);
}

function start(options: Parameters<typeof telemetry>[0] = {}) {
  const quick = events({
    timeout: 1,
    backoff: { initial: 0.02, max: 0.2 },
    breaker: { initial: 0.05, max: 0.2 },
  });
  return testServer({
    agents: [greeter],
    account: shared().account,
    plugins: [quick, telemetry({ interval: 0.02, metricsInterval: 0, logs: "none", ...options })],
  });
}

const piece = (details: Record<string, unknown>, type: "custom" | "exceptions" | "metrics" = "custom") => ({
  telemetry: { agentId: "agent-1", type, category: "business", severity: "info", details } as const,
  job_id: "job-1",
});

it("an agent's telemetry arrives in the control system's format, without secrets", async () => {
  await using server = await start();
  server.service.get(REDACTOR).addPassing("planted-secret-1");

  server.service.get(EMITTER).emit("telemetry", piece({ tokens: 12, note: "planted-secret-1" }));

  await expect.poll(telemetryOf).toEqual([
    {
      workspace_id: "dev",
      agentId: "agent-1",
      eventType: "custom",
      severity: "info",
      eventCategory: "business",
      details: { tokens: 12, note: "[secret]" },
    },
  ]);
});

it("exceptions survive an outage, and a failed job sends one by itself", async () => {
  await using server = await start();
  await shared().obey({ mode: "503", match: "eventType" });

  server.service.get(EMITTER).emit("telemetry", piece({ error: "odd" }, "exceptions"));
  await workThrough(server.service, "job-1", { end: "error_encountered" });
  await expect.poll(() => server.service.get(CONTROL_SYSTEM).counts()).toMatchObject({ waiting: 2 });
  await shared().obey({ mode: "ok" });

  await expect.poll(telemetryOf, { timeout: 5000 }).toHaveLength(2);
  expect((await telemetryOf()).map(({ details }) => details.job_id ?? details.error)).toEqual([
    "odd",
    "job-1",
  ]);
});

it("metrics that cannot be sent are dropped and counted, without delays", async () => {
  await using server = await start({ buffer: 20 });
  await shared().obey({ mode: "503", match: "eventType" });

  for (let n = 0; n < 100; n++) server.service.get(EMITTER).emit("telemetry", piece({ n }, "metrics"));

  const dropped = async () => {
    const text = await (await server.request("/metrics")).text();
    return Number(/^svc_telemetry_dropped_total (\d+)$/m.exec(text)?.[1]);
  };
  await expect.poll(dropped).toBeGreaterThanOrEqual(80);
});

it("sampling keeps a share of each severity", async () => {
  await using server = await start({ sample: { info: 0, warning: 1 } });
  const { telemetry: info } = piece({ kept: false });

  server.service.get(EMITTER).emit("telemetry", { telemetry: info });
  server.service.get(EMITTER).emit("telemetry", {
    telemetry: { ...info, severity: "warning", details: { kept: true } },
  });

  await expect.poll(telemetryOf).toHaveLength(1);
  expect((await telemetryOf())[0]!.details).toEqual({ kept: true });
});

it("log lines and the service's own metrics are sent", async () => {
  await using server = await start({ logs: "error", metricsInterval: 0.05 });

  server.service.get(EMITTER).emit("log", {
    time: "2026-01-01T00:00:00.000Z",
    level: "error",
    message: "broken",
    fields: { where: "here" },
  });

  await expect
    .poll(async () => new Set((await telemetryOf()).map((one) => one.eventType)))
    .toEqual(new Set(["logs", "metrics"]));
  const all = await telemetryOf();
  expect(all.find((one) => one.eventType === "logs")!.details).toMatchObject({
    message: "broken",
    where: "here",
  });
  expect(all.find((one) => one.eventType === "metrics")!.details).toHaveProperty("svc_store_writable", 1);
});

it("/metrics needs the key and counts jobs, cases and requests in Prometheus' format", async () => {
  await using server = await start();
  await workThrough(server.service, "job-1");

  expect((await server.request("/metrics", { key: null })).status).toBe(401);
  const response = await server.request("/metrics");
  const text = await response.text();

  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(text).toMatch(/^svc_jobs\{status="completed"\} 1$/m);
  expect(text).toMatch(/^svc_jobs_finished_total\{agent="greeter",status="completed"\} 1$/m);
  expect(text).toMatch(/^svc_cases_finished_total\{status="completed"\} 1$/m);
  expect(text).toMatch(/^svc_http_requests_total\{method="GET",status="401"\} 1$/m);
  expect(text).toMatch(/^svc_job_duration_seconds_bucket\{agent="greeter",le="\+Inf"\} 1$/m);
  for (const line of text.trimEnd().split("\n")) {
    expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[\d.e+-]+)$/);
  }
});

it("the alert rules and the Grafana dashboard name only metrics and statuses that the service has", async () => {
  await using server = await start();
  const metrics = await (await server.request("/metrics")).text();
  const known = new Set([...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  const read = (name: string) =>
    readFileSync(new URL(`../../docs/monitoring/${name}`, import.meta.url), "utf8");
  const rules = parse(read("alerts.yml")) as { groups: { rules: { alert: string; expr: string }[] }[] };
  const board = JSON.parse(read("grafana.json")) as { panels: { targets: { expr: string }[] }[] };
  const queries = [
    ...rules.groups.flatMap((group) => group.rules.map(({ expr }) => expr)),
    ...board.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];

  const named = queries.flatMap((query) => query.match(/\b(?:svc|process)_\w+/g) ?? []);
  const unknown = named.filter((name) => !known.has(name) && !known.has(name.replace(/_bucket$/, "")));
  const statuses = queries.flatMap((query) =>
    [...query.matchAll(/status="(\w+)"/g)].map(([, status]) => status),
  );

  expect(unknown).toEqual([]);
  expect(named.length).toBeGreaterThan(30);
  expect(statuses.filter((status) => !(EntityStatusSchema.options as string[]).includes(status!))).toEqual(
    [],
  );
});
