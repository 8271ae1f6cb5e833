// @alone
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { defineAgent, events, telemetry } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { CONTROL_SYSTEM, JOBS, PARAMETERS } from "../../src/core/service/tokens.ts";
import { bodies, sharedControl } from "./_control.ts";

const TOKEN = 'planted-"token"-8f3a/+ü';
const PASSWORD = "planted-password-55d1";
const shared = sharedControl();

/** Tries to get its secrets out in every way that it has. */
const leaky = defineAgent({
  name: "Leaky",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_secret: true, is_required: true }, { name: "PASSWORD" }],
  methods: {
    job_start: {
      fields: [{ name: "end", field_type: "CharField", required: true }],
      async run({ job, fields, parameters, log, telemetry }) {
        const { TOKEN, PASSWORD } = parameters;
        if (TOKEN?.length !== 23 || PASSWORD?.length !== 21) throw new Error("the values are not here");
        log.info(`token ${TOKEN}`, { PASSWORD, [TOKEN]: { deep: [PASSWORD] } });
        telemetry({ type: "custom", details: { TOKEN, nested: [PASSWORD] } });
        telemetry({ type: "exceptions", severity: "error", details: { error: `with ${TOKEN}` } });
        const item = await job.openCase({ id: "c1", name: `Case ${PASSWORD}`, description: TOKEN });
        await item.update({ name: TOKEN, payload: { [PASSWORD]: TOKEN, url: encodeURIComponent(TOKEN) } });
        await item.step("result", () => ({ basic: Buffer.from(`user:${PASSWORD}`).toString("base64") }));
        await item
          .step("throws", () => Promise.reject(new Error(TOKEN)), { retries: 1, backoff: { initial: 0.01 } })
          .catch(() => {});
        await item.close({ json: JSON.stringify({ TOKEN, PASSWORD }) });
        if (fields.end === "throw") throw new Error(`failed with ${TOKEN}`, { cause: new Error(PASSWORD) });
        return { message: `done with ${PASSWORD}`, TOKEN };
      },
    },
    chat: { run: ({ params }) => ({ heard: params }) },
  },
});

async function start(server: TestServer, id: string, end: string, given?: string): Promise<Response> {
  const encrypted =
    given ??
    server.service.get(PARAMETERS).encrypt(
      JSON.stringify([
        { name: "TOKEN", value: TOKEN },
        { name: "PASSWORD", value: PASSWORD },
      ]),
    );
  return server.request("/agents/leaky/jobs", {
    json: {
      job_context: {
        workspace_id: "dev",
        job_id: id,
        started_by: "test",
        started_at: "2026-01-01T00:00:00Z",
        mission_id: "m",
        mission_name: "Mission",
      },
      job_fields: { end },
      encrypted_agent_parameters: encrypted,
    },
  });
}

async function filesOf(folder: string): Promise<string> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  return (await Promise.all(files.map((entry) => readFile(join(entry.parentPath, entry.name), "utf8")))).join(
    "\n",
  );
}

it("no planted secret is in the data folder, log, responses, pages, events or telemetry", async () => {
  const control = shared();
  await using server = await testServer({
    agents: [leaky],
    account: control.account,
    store: undefined,
    logLevel: "debug",
    plugins: [
      events(),
      telemetry({ interval: 0.02, metricsInterval: 0.1, logs: "debug", sample: { debug: 1 } }),
    ],
  });
  const { service } = server;

  const answers = await Promise.all([start(server, "job-1", "return"), start(server, "job-2", "throw")]);
  for (const answer of answers) expect(answer.status).toBe(202);
  const texts = await Promise.all(answers.map((answer) => answer.text()));
  const statusOf = async (id: string) => (await service.get(JOBS).get(id)).status;
  await expect.poll(() => statusOf("job-1")).toBe("completed");
  await expect.poll(() => statusOf("job-2")).toBe("failed");

  const paths = [
    "/jobs",
    "/jobs/job-1",
    "/jobs/job-2",
    "/agents/leaky",
    "/agents/leaky/jobs/job-2",
    "/agents/health",
    "/metrics",
    "/openapi.json",
    "/admin/",
    "/admin/jobs",
    "/admin/cases",
    "/admin/api/jobs",
    "/admin/api/jobs/job-1",
    "/admin/api/jobs/job-2",
    "/admin/api/cases",
    "/admin/api/cases/c1",
    "/admin/api/recent-activity",
    "/admin/api/events",
    "/admin/api/stats",
  ];
  for (const accept of ["application/json", "text/html"]) {
    for (const path of paths) texts.push(await (await server.request(path, { headers: { accept } })).text());
  }
  await expect
    .poll(() => service.get(CONTROL_SYSTEM).counts())
    .toMatchObject({
      waiting: 0,
      dead: 0,
    });
  await new Promise((resolve) => setTimeout(resolve, 300));
  const received = await control.received();
  texts.push(JSON.stringify(received), ...server.logs, await filesOf(server.dataDir));

  expect(received.flatMap((item) => item.problems)).toEqual([]);
  expect(received.filter((item) => item.kind === "telemetry").length).toBeGreaterThan(4);
  expect(bodies(received).filter((body) => body.event_type === "agent.job.end")).toHaveLength(1);
  const all = texts.join("\n");
  expect(all).toContain("[secret]");
  const forms = [TOKEN, PASSWORD].flatMap((secret) => [
    secret,
    JSON.stringify(secret).slice(1, -1),
    JSON.stringify(JSON.stringify(secret)).slice(3, -3),
    encodeURIComponent(secret),
    Buffer.from(secret).toString("base64").slice(0, -3),
    Buffer.from(`user:${secret}`).toString("base64").slice(8, -3),
  ]);
  for (const form of forms) expect(all.includes(form), `contains ${form}`).toBe(false);
});

it("unreadable parameters are refused with the same message, whatever their problem", async () => {
  await using server = await testServer({ agents: [leaky] });
  const check = (encrypted: string) =>
    server.request("/agents/leaky/validate-agent-parameters", {
      json: { encrypted_agent_parameters: encrypted },
    });
  const good = server.service.get(PARAMETERS).encrypt(JSON.stringify({ TOKEN }));
  const bytes = Buffer.from(good, "base64");
  bytes[bytes.length - 1]! ^= 0xff;
  const unreadable = ["garbage", good.slice(0, 300), good.slice(0, -24), bytes.toString("base64")];

  const refused = await Promise.all(
    unreadable.map((encrypted) => start(server, "job-1", "return", encrypted)),
  );
  const checked = await Promise.all(unreadable.map(check));
  const valid = await check(good);

  expect(new Set(refused.map((response) => response.status))).toEqual(new Set([422]));
  const said = await Promise.all(
    refused.map(async (response) => ((await response.json()) as { error: string }).error),
  );
  expect(new Set(said).size).toBe(1);
  const verdicts = await Promise.all(checked.map((response) => response.text()));
  expect(new Set(verdicts.map((text) => text.replace(/"timestamp":"[^"]*"/, ""))).size).toBe(1);
  expect(await valid.json()).toMatchObject({ valid: true, errors: [], invalid_parameters: {} });
  expect(server.logs.join("\n")).not.toContain(TOKEN);
});
