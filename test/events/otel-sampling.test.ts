// @alone
// @long
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Service, webhooks } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { JOBS, RUNNER, STORE } from "../../src/core/service/tokens.ts";
import { asker, otlpReceiver } from "./_otlp.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
/** Traces that a ratio of a half takes and leaves. */
const TAKEN = "00000000000000000000000000000001";
const LEFT = "000000000000000000000000ffffffff";
const CALLER = "b7ad6b7169203331";
const SPANS = [
  "case One",
  "invoke_agent Asker",
  "step after the answer",
  "step at the end",
  "step before",
  "step in the case",
];

const { spans } = otlpReceiver();
let dataDir: string;
/** Takes messages of the control system and of a webhook. */
let sink: Server;
let sunk: { path: string; traceparent: string | undefined; tracestate: unknown; body: string }[];

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "svc-otel-"));
  sunk = [];
  sink = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => void chunks.push(chunk));
    request.on("end", () => {
      const traceparent = request.headers.traceparent as string | undefined;
      const { tracestate } = request.headers;
      const body = Buffer.concat(chunks).toString("utf8");
      sunk.push({ path: request.url ?? "", traceparent, tracestate, body });
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => sink.listen(0, "127.0.0.1", resolve));
});

afterEach(async () => {
  sink.closeAllConnections();
  sink.close();
  await rm(dataDir, { recursive: true, force: true });
});

function start(): Promise<TestServer> {
  const url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`;
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  return testServer({
    agents: [asker],
    dataDir,
    store: undefined,
    shutdownGrace: 1,
    account: { workspace_id: "dev", api_key: "a-key-of-the-tests", api_url: url },
    plugins: [webhooks({ webhooks: [{ name: "mine", url: `${url}/hook`, secret }], allowPrivate: true })],
  });
}

const input = (jobId: string) => ({
  job_context: {
    workspace_id: "dev",
    job_id: jobId,
    started_by: "test",
    started_at: "2026-01-01T00:00:00Z",
    mission_id: "m",
    mission_name: "Mission",
    mission_context: null,
    job_instructions: null,
  },
  job_fields: {},
});

async function reaches(service: Service, jobId: string, status: string): Promise<void> {
  const read = async () => (await service.get(JOBS).get(jobId)).status;
  await expect.poll(read).toBe(status);
}

/** A job that a request starts, from its start to its end; everything is exported when this resolves. */
async function runJob(traceparent?: string): Promise<readonly string[]> {
  await using server = await start();
  const headers = new Headers(traceparent === undefined ? {} : { traceparent });
  await server.request("/agents/asker/jobs", { headers, json: input("job-1") });
  await reaches(server.service, "job-1", "awaiting");
  await server.service.get(RUNNER).answer("job-1", "c1", { answer: { yes: true }, message: null });
  await reaches(server.service, "job-1", "completed");
  const isEnd = ({ body }: { body: string }) => body.includes("agent.job.end");
  await expect.poll(() => sunk.filter(isEnd).length).toBe(2);
  return server.logs;
}

const namesOf = (traceId: string) =>
  spans
    .filter((span) => span.traceId === traceId && !span.name.startsWith("ask"))
    .map((span) => span.name)
    .sort();

it("nothing that an unsampled caller starts is exported, even after a restart", async () => {
  {
    await using first = await start();
    await first.request("/agents/asker/jobs", {
      headers: { traceparent: `00-${TRACE}-${CALLER}-00` },
      json: input("job-1"),
    });
    await reaches(first.service, "job-1", "awaiting");
  }
  {
    await using second = await start();
    await second.request("/jobs/job-1/cases/c1/update", { json: { answer: { yes: true } } });
    await reaches(second.service, "job-1", "completed");
  }

  expect(spans.map((span) => span.name)).toEqual(["POST /jobs/:job_id/cases/:case_id/update"]);
});

it.each([
  ["00", "00"],
  ["01", "01"],
  // What other bits mean is not known here: they are not passed on.
  ["fe", "00"],
  ["ff", "01"],
])("events and webhooks carry the flag of the caller: %s as %s", async (flags, carried) => {
  await runJob(`00-${TRACE}-${CALLER}-${flags}`);

  const pattern = new RegExp(`^00-${TRACE}-[0-9a-f]{16}-${carried}$`);
  for (const path of ["/w/dev/api/v1/ctrl-events/", "/hook"]) {
    const sent = sunk.filter((message) => message.path === path);
    const ofJob = sent.filter(({ body }) => /"(event_)?type":"agent\.(job|case)\./.test(body));
    expect(ofJob.length).toBeGreaterThan(2);
    for (const { traceparent } of ofJob) expect(traceparent).toMatch(pattern);
    for (const message of sent) if (!ofJob.includes(message)) expect(message.traceparent).toBeUndefined();
  }
  expect(namesOf(TRACE)).toEqual(carried === "01" ? ["POST /agents/:slug/jobs", ...SPANS].sort() : []);
});

it.each([
  ["one=1, two@vendor=a b", "one=1,two@vendor=a b"],
  ["One=1", undefined],
  ["one", undefined],
  [Array.from({ length: 33 }, (_, at) => `k${at}=1`).join(), undefined],
  [`one=${"1".repeat(250)},two=${"2".repeat(250)},three=3`, undefined],
])(
  "events and webhooks carry the tracestate of the caller, also after a restart: %s",
  async (given, carried) => {
    {
      await using first = await start();
      await first.request("/agents/asker/jobs", {
        headers: { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: given },
        json: input("job-1"),
      });
      await reaches(first.service, "job-1", "awaiting");
    }
    {
      await using second = await start();
      await second.request("/jobs/job-1/cases/c1/update", { json: { answer: { yes: true } } });
      await reaches(second.service, "job-1", "completed");
      await expect.poll(() => sunk.filter(({ body }) => body.includes("agent.job.end")).length).toBe(2);
    }

    const ofJob = sunk.filter(({ traceparent }) => traceparent !== undefined);
    expect(ofJob.length).toBeGreaterThan(4);
    expect(new Set(ofJob.map(({ tracestate }) => tracestate))).toEqual(new Set([carried]));
  },
);

describe("a sampler decides by the caller's flag, by the trace, or always alike", () => {
  it.each([
    ["", "", TRACE, "00", false],
    ["", "", TRACE, "01", true],
    ["always_on", "", TRACE, "00", true],
    ["always_off", "", TRACE, "01", false],
    ["Always_Off", "", TRACE, "01", false],
    ["parentbased_always_on", "", TRACE, "00", false],
    ["parentbased_always_off", "", TRACE, "01", true],
    ["traceidratio", "0.5", TAKEN, "00", true],
    ["traceidratio", "0.5", LEFT, "01", false],
    ["traceidratio", "", LEFT, "00", true],
    ["traceidratio", "0", TAKEN, "01", false],
    ["parentbased_traceidratio", "0.5", TAKEN, "00", false],
    ["parentbased_traceidratio", "0.5", LEFT, "01", true],
  ])(
    "OTEL_TRACES_SAMPLER=%s OTEL_TRACES_SAMPLER_ARG=%s, trace %s, flag %s: exported %s",
    async (sampler, argument, trace, flag, exported) => {
      process.env.OTEL_TRACES_SAMPLER = sampler;
      process.env.OTEL_TRACES_SAMPLER_ARG = argument;

      const logs = await runJob(`00-${trace}-${CALLER}-${flag}`);

      expect(namesOf(trace)).toEqual(exported ? ["POST /agents/:slug/jobs", ...SPANS].sort() : []);
      const flags = new Set(
        sunk.flatMap(({ traceparent }) => (traceparent?.includes(trace) ? traceparent.slice(-2) : [])),
      );
      expect([...flags]).toEqual([exported ? "01" : "00"]);
      expect(logs.filter((line) => line.includes("OTEL_"))).toEqual([]);
    },
  );

  it.each([
    ["parentbased_always_on", true],
    ["parentbased_always_off", false],
  ])("OTEL_TRACES_SAMPLER=%s, no caller: exported %s", async (sampler, exported) => {
    process.env.OTEL_TRACES_SAMPLER = sampler;

    await runJob();

    expect(spans.map((span) => span.name).includes("invoke_agent Asker")).toBe(exported);
    expect(spans.length > 0).toBe(exported);
  });
});

it("jobs that no request started are exported completely or not at all, by their ids, across a restart", async () => {
  process.env.OTEL_TRACES_SAMPLER = "parentbased_traceidratio";
  process.env.OTEL_TRACES_SAMPLER_ARG = "0.5";
  const ids = Array.from({ length: 16 }, (_, n) => `job-${n}`);
  {
    await using first = await start();
    await Promise.all(ids.map((id) => first.service.get(RUNNER).start("asker", input(id))));
    for (const id of ids) await reaches(first.service, id, "awaiting");
  }
  const early = new Set(spans.map((span) => span.traceId));
  {
    await using second = await start();
    const runner = second.service.get(RUNNER);
    await Promise.all(ids.map((id) => runner.answer(id, "c1", { answer: { yes: true }, message: null })));
    for (const id of ids) await reaches(second.service, id, "completed");
  }

  expect(early.size).toBeGreaterThan(0);
  expect(early.size).toBeLessThan(ids.length);
  expect(new Set(spans.map((span) => span.traceId))).toEqual(early);
  for (const trace of early) expect(namesOf(trace)).toEqual(SPANS);
});

it("a job's row records only that it is not sampled", async () => {
  await using server = await start();
  for (const [jobId, flag] of [
    ["quiet", "00"],
    ["loud", "01"],
  ] as const) {
    const headers = { traceparent: `00-${TRACE}-${CALLER}-${flag}` };
    await server.request("/agents/asker/jobs", { headers, json: input(jobId) });
  }

  const rows = server.service.get(STORE).table("JobTrace");
  const ids = { trace_id: TRACE, parent_id: expect.stringMatching(/^[0-9a-f]{16}$/) };
  expect(await rows.get("quiet")).toEqual({ id: "quiet", ...ids, sampled: false });
  expect(await rows.get("loud")).toEqual({ id: "loud", ...ids });
});

describe("an invalid value is named in the log, and the default applies", () => {
  it.each([
    ["jaeger_remote", "endpoint=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER", "jaeger_remote", "00", false],
    ["sometimes", "", "OTEL_TRACES_SAMPLER", "sometimes", "01", true],
    ["traceidratio", "1.5", "OTEL_TRACES_SAMPLER_ARG", "1.5", "00", true],
    ["traceidratio", "-0.1", "OTEL_TRACES_SAMPLER_ARG", "-0.1", "00", true],
    ["traceidratio", "0,5", "OTEL_TRACES_SAMPLER_ARG", "0,5", "00", true],
    ["parentbased_traceidratio", "half", "OTEL_TRACES_SAMPLER_ARG", "half", "00", false],
  ])(
    "OTEL_TRACES_SAMPLER=%s OTEL_TRACES_SAMPLER_ARG=%s",
    async (sampler, argument, variable, value, flag, exported) => {
      process.env.OTEL_TRACES_SAMPLER = sampler;
      process.env.OTEL_TRACES_SAMPLER_ARG = argument;

      const logs = await runJob(`00-${LEFT}-${CALLER}-${flag}`);

      const named = logs.filter((line) => line.includes("OTEL_"));
      expect(named).toEqual([expect.stringMatching(/ WARN /)]);
      expect(named[0]).toContain(` ${variable} `);
      expect(named[0]).toContain(`value=${value}`);
      expect(namesOf(LEFT)).toEqual(exported ? ["POST /agents/:slug/jobs", ...SPANS].sort() : []);
    },
  );
});
