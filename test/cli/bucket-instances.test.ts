import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePort } from "../deploy/_local-project.ts";
import { type S3Server, startS3 } from "../storage/s3-server.ts";
import { beginSvc, PROCESS_TIME, project, type Running } from "./_svc.ts";

const KEY = "a-key-of-all-revisions-b7c1";

/** Counts how often its step runs: a job asks in the middle. */
const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const asker = defineAgent({
  name: "Asker", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    const first = await job.step("first", () => { appendFileSync("ran", "first\\n"); return process.pid; });
    const item = await job.openCase({ id: "x", name: "Case x" });
    const { yes } = await item.ask("approve", { question: "Continue?", fields: [{ name: "yes", required: true }] });
    return { first, yes };
  } } },
});
export default createServer({ agents: [asker] });
`;

let s3: S3Server;
beforeAll(async () => {
  s3 = await startS3(["revisions"]);
});
afterAll(() => s3.close());

interface Revision {
  readonly running: Running;
  readonly url: string;
  request(path: string, body?: object): Promise<{ status: number; body: Record<string, unknown> }>;
  health(): Promise<string>;
}

/** Starts the service with a disk of its own, which is blank. */
async function start(folder: string, name: string): Promise<Revision> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const query = new URLSearchParams({ endpoint: s3.url, region: s3.region, conditional: "true" });
  const env = {
    ...{ SERVICE_STORAGE_URL: `s3://revisions/service?${query}`, SERVICE_API_KEY: KEY },
    ...{ AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" },
    ...{ SERVICE_DATA_DIR: name, SERVICE_PORT: String(port), SERVICE_HOST: "127.0.0.1" },
  };
  const running = beginSvc(["start", "controller.mjs"], { cwd: folder, env });
  await running.prints(/is running|Standby: another/);
  const request = async (path: string, body?: object) => {
    const headers = { "x-api-key": KEY, "content-type": "application/json" };
    const sent = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) };
    const response = await fetch(url + path, sent);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const health = async () => JSON.stringify((await request("/.well-known/health")).body);
  return { running, url, request, health };
}

/** Sends a request until it is not refused for the moment. */
async function insist(revision: Revision, path: string, body?: object) {
  let answer = await revision.request(path, body);
  await expect
    .poll(async () => {
      if (answer.status === 503) answer = await revision.request(path, body);
      return answer.status;
    })
    .toBeLessThan(300);
  return answer.body;
}

it(
  "real processes with blank disks take a bucket over at SIGTERM, at a request after kill -9, and from one that hangs",
  async () => {
    const folder = await project({ "controller.mjs": CONTROLLER });
    const a = await start(folder, "a");
    const { id } = await insist(a, "/agents/asker/jobs", {});
    const open = async (revision: Revision) => (await insist(revision, `/jobs/${id}`)).status as string;
    await expect.poll(() => open(a)).toBe("awaiting");

    // The next one waits, is healthy, and has the store once the first one has ended.
    const b = await start(folder, "b");
    expect(await b.health()).toContain("Standby");
    expect(await b.health()).toContain('"healthy"');
    expect(await open(a)).toBe("awaiting");
    a.running.process.kill("SIGTERM");
    expect((await a.running.finished).code).toBe(0);
    await expect.poll(() => b.health()).not.toContain("Standby");
    expect(await open(b)).toBe("awaiting");

    // No farewell: the first request takes the store over.
    const c = await start(folder, "c");
    b.running.process.kill("SIGKILL");
    await b.running.finished;
    expect(await c.health()).toContain("Standby");
    expect(await open(c)).toBe("awaiting");

    // One that hangs, and wakes up when another one has the store: it stores nothing more, and says so.
    const d = await start(folder, "d");
    c.running.process.kill("SIGSTOP");
    const later = await insist(d, "/agents/asker/jobs", {});
    c.running.process.kill("SIGCONT");
    const refused = await c.request("/agents/asker/jobs", {});
    expect(refused).toMatchObject({ status: 503, body: { error_type: "storage_error" } });
    await expect.poll(() => c.health()).toContain('"unhealthy"');

    await insist(d, `/jobs/${id}/cases/x/update`, { answer: { yes: "indeed" } });
    await expect
      .poll(async () => (await d.request(`/jobs/${id}/result`)).body)
      .toMatchObject({
        status: "completed",
        result: { first: a.running.process.pid, yes: "indeed" },
      });
    expect(await open(d)).toBe("completed");
    const steps = (await readFile(join(folder, "ran"), "utf8")).trim().split("\n");
    // Of the two jobs.
    expect(steps).toHaveLength(2);
    expect((await insist(d, `/jobs/${later.id}`)).status).toBe("awaiting");
  },
  PROCESS_TIME,
);
