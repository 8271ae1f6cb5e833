// @alone
// @long
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { events, type Service } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { afterAll, describe, expect, it } from "vitest";
import type { Received } from "../../src/cli/control/inbox.ts";
import { CONTROL_SYSTEM } from "../../src/core/service/tokens.ts";
import { bundleChild } from "../_bundle.ts";
import { greeter } from "../_setup.ts";
import {
  bodies,
  type Control,
  distinct,
  killNow,
  outputOf,
  sharedControl,
  startControl,
} from "./_control.ts";
import { workThrough } from "./_work.ts";

const shared = sharedControl();
const impatient = () =>
  events({ timeout: 0.5, backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.3 } });
const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

/** The events of a job with one case of three updates, and the registration of server and agent. */
const PER_JOB = 1 + 1 + 4 + 1;
const REGISTRATION = 2;

async function workJobs(service: Service, count: number): Promise<void> {
  const all = Array.from({ length: count }, (_, n) => workThrough(service, `job-${n}`, { updates: 3 }));
  await Promise.all(all);
}

/** What came once so many messages about jobs have: a service that starts again elsewhere registers once more, too. */
async function receivedOfJobs(control: Pick<Control, "received">, count: number): Promise<Received[]> {
  let items: Received[] = [];
  const ofJobs = async () => {
    items = (await control.received()).filter(({ kind }) => kind === "event");
    return bodies(items).filter((body) => body.source.job !== undefined).length;
  };
  await expect.poll(ofJobs, { timeout: 60_000, interval: 50 }).toBeGreaterThanOrEqual(count);
  return items;
}

/** Everything came, each once or again under the same key, and in order per job. */
function expectComplete(received: readonly Received[], jobs: number, perJob = PER_JOB): void {
  expect(received.flatMap((item) => item.problems)).toEqual([]);
  for (let n = 0; n < jobs; n++) {
    const told = bodies(received).filter((body) => body.source.job === `job-${n}`);
    expect(told).toHaveLength(perJob);
    expect(told[0]!.event_type).toBe("agent.job.start.confirmation");
    expect(told.at(-1)!.event_type).toBe("agent.job.end");
    const indexes = told.flatMap((body) =>
      body.event_type === "agent.case.update" ? body.details.index : [],
    );
    expect(indexes).toEqual(Array.from({ length: perJob - 3 }, (_, i) => i + 1));
  }
  const keys = distinct(received).map((item) => item.key);
  expect(new Set(keys).size).toBe(keys.length);
}

/** Starts processes of its own, which takes its time on a busy machine. */
const SLOW = { timeout: 180_000 };

describe("every event arrives, in order per job, when the control system", () => {
  const faults = [
    ["answers 503", { mode: "503", times: 25 }],
    ["answers 500 to one message again and again", { mode: "500", times: 4, match: '"index":2' }],
    ["answers 429 and asks for time", { mode: "429", times: 6, retry_after: 1 }],
    ["does not answer", { mode: "hang", times: 12 }],
    ["resets connections", { mode: "reset", times: 25 }],
    ["breaks the connection after it took the message", { mode: "cut", times: 25 }],
    ["does not know the key for a while", { mode: "401", times: 12 }],
  ] as const;

  it.each(faults)("%s", async (_, order) => {
    const control = shared();
    await control.obey(order);
    await using server = await testServer({
      agents: [greeter],
      account: control.account,
      plugins: [impatient()],
    });

    await workJobs(server.service, 8);

    expectComplete(await control.waitFor(REGISTRATION + 8 * PER_JOB), 8);
    await expect
      .poll(() => server.service.get(CONTROL_SYSTEM).counts())
      .toMatchObject({ waiting: 0, dead: 0, delivered: REGISTRATION + 8 * PER_JOB });
  });

  it("is away for the whole run and for a restart of the service", SLOW, async () => {
    const first = await startControl();
    await first.kill();
    const dataDir = await mkdtemp(join(tmpdir(), "svc-events-"));
    folders.push(dataDir);
    const options = { agents: [greeter], account: first.account, dataDir, store: undefined };
    {
      await using server = await testServer({ ...options, plugins: [impatient()] });
      await workJobs(server.service, 5);
    }

    await using second = await startControl("--port", new URL(first.url).port);
    await using server = await testServer({ ...options, plugins: [impatient()] });

    expectComplete(await receivedOfJobs(second, 5 * PER_JOB), 5);
    await expect
      .poll(() => server.service.get(CONTROL_SYSTEM).status().targets[0])
      .toMatchObject({ state: "ok" });
  });

  it("is killed while it receives events, and comes back", SLOW, async () => {
    const first = await startControl("--fail", "hang", "--times", "2");
    await using server = await testServer({
      agents: [greeter],
      account: first.account,
      plugins: [impatient()],
    });
    const work = workJobs(server.service, 5);
    // From here on it takes nothing: what it has taken can be counted.
    await first.obey({ mode: "hang" });
    const before = await first.received();
    await first.kill();
    await work;

    await using second = await startControl("--port", new URL(first.url).port);
    const missing = REGISTRATION + 5 * PER_JOB - distinct(before).length;
    const after = await second.waitFor(missing);

    const all = [...before, ...after.map((item) => ({ ...item, n: item.n + before.length }))];
    const seen = new Set<string | null>();
    const marked = all.map((item) => {
      const duplicate = item.duplicate || seen.has(item.key);
      seen.add(item.key);
      return { ...item, duplicate };
    });
    expectComplete(marked, 5);
  });
});

it("500 events that are waiting when the service is killed arrive after its restart", SLOW, async () => {
  const control = shared();
  await control.obey({ mode: "503" });
  const dataDir = await mkdtemp(join(tmpdir(), "svc-events-"));
  folders.push(dataDir);
  const child = spawn(process.execPath, [await bundleChild(new URL("_service.ts", import.meta.url))], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin?.end(JSON.stringify({ dataDir, account: control.account, jobs: 10, updates: 46 }));
  await outputOf(child, /worked/);
  await killNow(child);

  await control.obey({ mode: "ok" });
  await using server = await testServer({
    agents: [greeter],
    account: control.account,
    dataDir,
    apiKey: "a-key-for-this-test",
    store: undefined,
    plugins: [impatient()],
  });

  // 1 start, 1 case, 46 updates, 1 close, 1 end for each job.
  expectComplete(await receivedOfJobs(control, 500), 10, 50);
  await expect.poll(() => server.service.get(CONTROL_SYSTEM).counts()).toMatchObject({ waiting: 0, dead: 0 });
});
