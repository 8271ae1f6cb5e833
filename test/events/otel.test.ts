import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { JOBS } from "../../src/core/tokens.ts";

interface Span {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: { key: string; value: { stringValue?: string } }[];
}

/** An OTLP receiver: keeps the spans and the names of the metrics that it is sent. */
let receiver: Server;
let spans: Span[] = [];
let metricNames = new Set<string>();
let dataDir: string;

beforeEach(async () => {
  spans = [];
  metricNames = new Set();
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
  dataDir = await mkdtemp(join(tmpdir(), "svc-otel-"));
});

afterEach(async () => {
  for (const name of ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_SERVICE_NAME"]) {
    delete process.env[name];
  }
  receiver.closeAllConnections();
  receiver.close();
  await rm(dataDir, { recursive: true, force: true });
});

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        await job.step("before", () => 1);
        const item = await job.openCase({ id: "c1", name: "One", description: "" });
        await item.step("in the case", () => 2);
        await item.ask({ question: "Go on?", fields: [{ name: "yes", field_type: "BooleanField" }] });
        await item.step("after the answer", () => 3);
        await item.close({});
        await job.step("at the end", () => 4);
        return { message: "done" };
      },
    },
  },
});

it("spans of a job have the right parents, across a restart, under the caller's trace", async () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const caller = "b7ad6b7169203331";
  const options = { agents: [asker], dataDir, store: undefined, shutdownGrace: 1 };
  {
    await using first = await testServer(options);
    const answer = await first.request("/agents/asker/jobs", {
      headers: { traceparent: `00-${trace}-${caller}-01` },
      json: {
        job_context: {
          workspace_id: "dev",
          job_id: "job-1",
          started_by: "test",
          started_at: "2026-01-01T00:00:00Z",
          mission_id: "mission-7",
          mission_name: "Mission",
        },
        job_fields: {},
      },
    });
    expect(answer.status).toBe(202);
    const status = async () => (await first.service.get(JOBS).get("job-1")).status;
    await expect.poll(status, { timeout: 10_000 }).toBe("awaiting");
  }
  await using second = await testServer(options);
  const answered = await second.request("/jobs/job-1/cases/c1/update", { json: { answer: { yes: true } } });
  expect(answered.status).toBe(200);
  const status = async () => (await second.service.get(JOBS).get("job-1")).status;
  await expect.poll(status, { timeout: 10_000 }).toBe("completed");

  await expect.poll(() => spans.some((span) => span.name === "job asker"), { timeout: 10_000 }).toBe(true);
  const named = (name: string): Span => {
    const found = spans.filter((span) => span.name === name);
    expect(found.map((span) => span.name)).toEqual([name]);
    return found[0]!;
  };
  const request = named("POST /agents/:slug/jobs");
  const job = named("job asker");
  const item = named("case One");
  const parents = Object.fromEntries(
    [
      request,
      job,
      item,
      named("step before"),
      named("step in the case"),
      named("step after the answer"),
      named("step at the end"),
    ].map((span) => [span.name, span.parentSpanId]),
  );
  expect(parents).toEqual({
    "POST /agents/:slug/jobs": caller,
    "job asker": request.spanId,
    "case One": job.spanId,
    "step before": job.spanId,
    "step in the case": item.spanId,
    "step after the answer": item.spanId,
    "step at the end": job.spanId,
  });
  const ofJob = spans.filter((span) => span.name.startsWith("step") || span.name.startsWith("case"));
  expect(new Set([...ofJob, job, request].map((span) => span.traceId))).toEqual(new Set([trace]));
  const attributes = Object.fromEntries(job.attributes.map(({ key, value }) => [key, value.stringValue]));
  expect(attributes).toMatchObject({ "svc.job.id": "job-1", "svc.mission.id": "mission-7" });
});

it("metrics go out by the same protocol", async () => {
  {
    await using server = await testServer({ agents: [asker] });
    await server.request("/agents");
  }

  expect([...metricNames]).toEqual(expect.arrayContaining(["svc_store_writable", "svc_http_requests_total"]));
});

it("without the variables no OpenTelemetry package is needed, and nothing is sent", async () => {
  delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
  {
    await using server = await testServer({ agents: [asker] });
    await server.request("/agents");
  }

  expect(spans).toEqual([]);
});
