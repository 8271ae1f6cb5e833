// @alone
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type AgentDefinition, defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { JOBS } from "../../src/core/service/tokens.ts";
import { mcp, mcpTools } from "../../src/mcp.ts";
import { asker, otlpReceiver, type Span, valueIn } from "./_otlp.ts";

const { spans, metricNames, metrics } = otlpReceiver();
let dataDir: string;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "svc-otel-"));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

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
    await expect.poll(status).toBe("awaiting");
  }
  await using second = await testServer(options);
  const answered = await second.request("/jobs/job-1/cases/c1/update", { json: { answer: { yes: true } } });
  expect(answered.status).toBe(200);
  const status = async () => (await second.service.get(JOBS).get("job-1")).status;
  await expect.poll(status).toBe("completed");

  await expect.poll(() => spans.some((span) => span.name === "invoke_agent Asker")).toBe(true);
  const named = (name: string): Span => {
    const found = spans.filter((span) => span.name === name);
    expect(found.map((span) => span.name)).toEqual([name]);
    return found[0]!;
  };
  const request = named("POST /agents/:slug/jobs");
  const job = named("invoke_agent Asker");
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
    "invoke_agent Asker": request.spanId,
    "case One": job.spanId,
    "step before": job.spanId,
    "step in the case": item.spanId,
    "step after the answer": item.spanId,
    "step at the end": job.spanId,
  });
  const ofJob = spans.filter((span) => span.name.startsWith("step") || span.name.startsWith("case"));
  expect(new Set([...ofJob, job, request].map((span) => span.traceId))).toEqual(new Set([trace]));
  const attributes = Object.fromEntries(job.attributes.map(({ key, value }) => [key, value.stringValue]));
  expect(attributes).toMatchObject({
    ...{ "svc.job.id": "job-1", "svc.mission.id": "mission-7" },
    ...{ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Asker", "gen_ai.agent.id": "asker" },
    ...{ "gen_ai.agent.version": "1.0.0", "gen_ai.conversation.id": "job-1" },
  });
  const ofRequest = Object.fromEntries(request.attributes.map(({ key, value }) => [key, valueIn(value)]));
  expect(ofRequest).toMatchObject({ "url.scheme": "http", "server.address": "127.0.0.1" });
});

it("what fails has the type of its error: the step, its job, and nothing else", async () => {
  const failing = defineAgent({
    name: "Failing",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          await job.step("works", () => 1);
          await job.step("breaks", () => {
            throw new RangeError("too far");
          });
        },
      },
    },
  });
  {
    await using server = await testServer({ agents: [failing] });
    await server.request("/agents/failing/jobs", { json: {} });
    await expect.poll(() => spans.map(({ name }) => name)).toContain("invoke_agent Failing");
  }
  const types = spans.flatMap(({ name, attributes }) =>
    attributes.flatMap(({ key, value }) => (key === "error.type" ? [[name, value.stringValue]] : [])),
  );

  expect(Object.fromEntries(types)).toEqual({
    "step breaks": "RangeError",
    "invoke_agent Failing": expect.any(String),
  });
});

it("metrics are sent as often as the variable says, durations as histograms", async () => {
  process.env.OTEL_METRIC_EXPORT_INTERVAL = "50";
  await using server = await testServer({ agents: [asker] });
  await server.request("/agents");

  // While the service runs: its end sends what there is, too.
  await expect
    .poll(() => metrics.get("svc_http_request_duration_seconds")?.histogram?.dataPoints[0])
    .toBeDefined();
  expect(metrics.get("svc_http_request_duration_seconds")?.unit).toBe("s");
  expect([...metricNames].filter((name) => /_(sum|count)$/.test(name))).toEqual([]);
});

it("metrics are exported with the same protocol", async () => {
  {
    await using server = await testServer({ agents: [asker] });
    await server.request("/agents");
  }

  expect([...metricNames]).toEqual(expect.arrayContaining(["svc_store_writable", "svc_http_requests_total"]));
});

it("without the variables no OpenTelemetry package is required, and nothing is sent", async () => {
  delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
  process.env.OTEL_TRACES_SAMPLER = "no such sampler";
  let logs: readonly string[];
  {
    await using server = await testServer({ agents: [asker] });
    await server.request("/agents");
    logs = server.logs;
  }

  expect(spans).toEqual([]);
  expect(logs.filter((line) => line.includes("OTEL_"))).toEqual([]);
});

it.each([false, true])(
  "requests of a step continue its trace, as do calls of tools (isolated: %s)",
  async (isIsolated) => {
    const got: { traceparent: string | undefined; state: unknown; meta: unknown }[] = [];
    const target = createServer(async (request, response) => {
      const { traceparent, tracestate: state } = request.headers;
      const body = await text(request);
      if (request.method === "GET" || body.includes('"tools/call"'))
        got.push({
          ...{ traceparent: traceparent as string, state },
          meta: body && JSON.parse(body).params._meta,
        });
      if (request.method === "GET" || !mcpUrl) return response.end("ok");
      const { host: _host, connection: _connection, "content-length": _length, ...headers } = request.headers;
      const answer = await fetch(mcpUrl, { method: "POST", headers: headers as never, body });
      response.writeHead(answer.status, {
        "content-type": answer.headers.get("content-type") ?? "text/plain",
      });
      response.end(await answer.text());
    });
    let mcpUrl: URL | undefined;
    await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      target.closeAllConnections();
      target.close();
    });
    const { port } = target.address() as { port: number };
    const echo = defineAgent({
      name: "Echo",
      version: "1.0.0",
      methods: { job_start: { run: () => "echo" } },
    });
    await using there = await testServer({ agents: [echo], plugins: [mcp()] });
    mcpUrl = new URL("/mcp", there.url);
    const module = join(dataDir, "agent.mjs");
    await writeFile(
      module,
      `export const caller = { name: "Caller", version: "1.0.0", methods: { job_start: { run: ({ job }) =>
       job.step("call", async ({ traceHeaders }) => {
         await fetch("http://127.0.0.1:${port}/", { headers: await traceHeaders() });
         return 1;
       }) } } };`,
    );
    const { caller } = (await import(module)) as { caller: AgentDefinition };
    const user = defineAgent({
      ...{ name: "User", version: "1.0.0" },
      methods: {
        job_start: {
          run: async ({ job }) => {
            const tools = mcpTools(`http://127.0.0.1:${port}/mcp`, { headers: { "x-api-key": there.key } });
            return (await tools.call(job, "echo")).text;
          },
        },
      },
    });
    await using server = await testServer({
      agents: [isIsolated ? { ...caller, isolate: { module } } : caller, user],
    });
    const headers = {
      traceparent: `00-${"a1".repeat(16)}-${"b2".repeat(8)}-01`,
      tracestate: "one=1, two@vendor=2 3",
    };
    for (const slug of ["caller", "user"])
      await server.request(`/agents/${slug}/jobs`, { json: {}, headers });

    await expect
      .poll(() => spans.map(({ name }) => name))
      .toEqual(expect.arrayContaining(["step call", "execute_tool echo"]));
    for (const [at, name] of ["step call", "execute_tool echo"].entries()) {
      const span = spans.find((one) => one.name === name)!;
      const expected = `00-${span.traceId}-${span.spanId}-01`;
      const sent = got.filter(({ traceparent }) => traceparent === expected);
      expect(sent, name).toHaveLength(1);
      expect(sent[0]!.state, name).toBe("one=1,two@vendor=2 3");
      if (at === 1)
        expect(sent[0]!.meta).toMatchObject({ traceparent: expected, tracestate: "one=1,two@vendor=2 3" });
    }
  },
);
