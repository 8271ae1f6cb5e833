// The service and, on ports of their own, two h3 apps with only one route: one returns the same bytes as a text, and one
// serializes the same object and sends the same headers.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { H3, serve } from "h3";
import { FastResponse } from "srvx";
import { createServer, defineAgent } from "../../dist/index.js";
import { JOBS } from "../../dist/plugin.js";

const dataDir = mkdtempSync(join(tmpdir(), "bench-http-"));
const apiKey = "key-of-this-benchmark";
const agent = defineAgent({
  name: "Echo",
  version: "1.0.0",
  methods: {
    job_start: { fields: [{ name: "text" }], run: ({ fields }) => ({ message: fields.text }) },
  },
});
const service = createServer({ agents: [agent], apiKey, dataDir, port: 0, logTo: () => {} });
await service.listen();

const makeKey = async (access) => {
  const response = await fetch(`${service.url}/access`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify(access),
  });
  if (response.status !== 201) throw new Error(`No key: ${response.status} ${await response.text()}`);
  return (await response.json()).key;
};
const keys = {
  root: apiKey,
  named: await makeKey({ name: "whole", role: "viewer" }),
  limited: await makeKey({ name: "limited", role: "viewer", workspace: "workspace" }),
};

const headers = { "x-api-key": apiKey, "content-type": "application/json" };
const start = async (job_id, more) => {
  const response = await fetch(`${service.url}/agents/echo/jobs`, {
    method: "POST",
    headers,
    body: JSON.stringify({
      job_context: {
        workspace_id: "workspace",
        job_id,
        started_by: "bench",
        started_at: new Date().toISOString(),
        ...more,
      },
      job_fields: { text: "A message of the length that messages have" },
    }),
  });
  if (response.status !== 202)
    throw new Error(`The job was not started: ${response.status} ${await response.text()}`);
  while ((await service.get(JOBS).get(job_id)).status !== "completed") {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
await start("job-1", { mission_id: "mission", mission_name: "Mission" });
// Of no mission, which is searched for in the name of a caller who sees a part.
await start("job-2");
const answer = await fetch(`${service.url}/jobs/job-1`, { headers });
const body = await answer.text();
const ofConnection = new Set(["connection", "content-length", "date", "keep-alive"]);
const sent = [...answer.headers].filter(([name]) => !ofConnection.has(name));

const listen = async (handler) => {
  const app = new H3({ silent: true });
  app.get("/jobs/:id", handler);
  const server = serve(app, { port: 0, hostname: "127.0.0.1", silent: true, gracefulShutdown: false });
  await server.ready();
  return Number(new URL(server.url).port);
};
const job = JSON.parse(body);
const bare = await listen(() => body);
const dressed = await listen(() => new FastResponse(JSON.stringify(job), { headers: sent }));

process.on("message", (message) => {
  if (message === "cpu") process.send({ cpu: process.cpuUsage() });
  if (message === "end") {
    void service.close().then(() => {
      rmSync(dataDir, { recursive: true, force: true });
      process.exit(0);
    });
  }
});
process.send({
  ports: { service: Number(new URL(service.url).port), bare, dressed },
  keys,
});
