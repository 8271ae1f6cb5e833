// @long
import { access as exists, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { signIn } from "../admin/_sign-in.ts";
import { EventReader } from "../http/_event-reader.ts";
import { jobContext } from "../runs/_jobs.ts";
import { beginSvc, PROCESS_TIME, project, type Running, svc } from "./_svc.ts";

const KEY = "a-key-of-all-instances";

/** Its job says which process runs it, and waits until there is a file "go". */
const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
import { postgres } from "agent-control-service/postgres";
const waiter = defineAgent({
  name: "Waiter", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    const first = await job.step("first", () => process.pid);
    await job.step("wait", async () => {
      appendFileSync("held", process.pid + "\\n");
      while (!existsSync("go")) await new Promise((done) => setTimeout(done, 50));
    });
    return { first, last: await job.step("last", () => process.pid) };
  } } },
});
if (process.env.BROKEN) throw new Error("the controller is broken");
const { DATABASE: url, SCHEMA: schema } = process.env;
export default createServer({ agents: [waiter], ...(url && { store: postgres({ url, schema, connections: 2 }) }) });
`;

/** Several instances, as one service. */
class Service {
  readonly key = KEY;
  readonly #folder: string;
  readonly #running: Running;
  readonly url: string;

  private constructor(folder: string, running: Running, url: string) {
    this.#folder = folder;
    this.#running = running;
    this.url = url;
  }

  static async start(count: number): Promise<Service> {
    const cluster = await sharedCluster();
    const folder = await project({ "controller.mjs": CONTROLLER });
    const env = {
      ...{ DATABASE: cluster.url, SCHEMA: await borrowSchema(cluster), SERVICE_API_KEY: KEY },
      ...{ SERVICE_RSA_PRIVATE_KEY: sharedRsaKey(), SERVICE_PORT: "0" },
    };
    const running = beginSvc(["start", "controller.mjs", "--instances", String(count)], { cwd: folder, env });
    await running.prints(/data {6}the controller's store/);
    await running.prints(/an instance has started/, count);
    const url = (await readFile(join(folder, "data/address"), "utf8")).trim();
    return new Service(folder, running, url);
  }

  /** On a connection of its own: the next one goes to another instance. */
  fetch(path: string, headers: Record<string, string> = { "x-api-key": KEY }, body?: string) {
    const all = { connection: "close", "content-type": "application/json", ...headers };
    return fetch(this.url + path, { headers: all, ...(body && { method: "POST", body }) });
  }

  async startJob(id: string, headers = {}): Promise<Response> {
    const body = JSON.stringify({ job_context: jobContext(id) });
    return this.fetch("/agents/waiter/jobs", { "x-api-key": KEY, ...headers }, body);
  }

  /** Process numbers that have started the waiting step, in order. */
  async held(): Promise<number[]> {
    const text = await readFile(join(this.#folder, "held"), "utf8").catch(() => "");
    return text.split("\n").filter(Boolean).map(Number);
  }

  async go(): Promise<void> {
    await writeFile(join(this.#folder, "go"), "");
  }

  prints(pattern: RegExp, occurrence?: number) {
    return this.#running.prints(pattern, occurrence);
  }

  /** Lines of the log, with all processes among them. */
  logs(): Record<string, unknown>[] {
    const lines = this.#running.output().split("\n");
    return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  }

  /** Process number and short name of each instance that has started. */
  started(): { pid: number; instance: string }[] {
    return this.logs().filter(({ message }) => message === "an instance has started") as never;
  }

  async end() {
    this.#running.process.kill("SIGTERM");
    return this.#running.finished;
  }

  async kill() {
    this.#running.process.kill("SIGKILL");
    return this.#running.finished;
  }

  async hasAddress(): Promise<boolean> {
    return exists(join(this.#folder, "data/address")).then(
      () => true,
      () => false,
    );
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

requirement("postgres").describe("svc start --instances", () => {
  it("takes turns at one port, where a session, a stream and a job are the same on all", async () => {
    const service = await Service.start(3);
    const session = await signIn(service as unknown as TestServer, "Ada", { connection: "close" });
    const answered = new Set<string>();

    for (let n = 0; n < 9; n++) {
      const page = await service.fetch("/admin/api/server", { cookie: session });
      const { instances } = (await page.json()) as { instances: { id: string; current: boolean }[] };
      expect(instances).toHaveLength(3);
      answered.add(instances.find(({ current }) => current)!.id.slice(0, 8));
    }

    expect([...answered].sort()).toEqual(
      service
        .started()
        .map(({ instance }) => instance)
        .sort(),
    );
    const ended = service.startJob("job-1", { prefer: "wait=60" });
    await expect.poll(() => service.held()).toHaveLength(1);
    const streams = [0, 1, 2].map(async () => new EventReader(await service.fetch("/jobs/job-1/stream")));
    await service.go();
    expect(await (await ended).json()).toMatchObject({ status: "completed" });
    for (const stream of streams) {
      expect((await (await stream).rest()).at(-1)).toMatchObject({ event: "end" });
    }
    expect(await service.end()).toMatchObject({ code: 0 });
    // Each line says which instance it comes from.
    // What it says of the database comes before it is one of them.
    const lines = service.logs().filter(({ message }) => !String(message).startsWith("The database has"));
    expect(new Set(lines.map(({ instance }) => instance))).toEqual(answered);
    const endings = service.logs().filter(({ message }) => message === "ending");
    expect(new Set(endings.map(({ instance }) => instance))).toEqual(answered);
    expect(await service.hasAddress()).toBe(false);
  });

  it("a job of an instance that is killed finishes on another, and the instance is started again", async () => {
    const service = await Service.start(3);
    await service.startJob("job-1");
    await expect.poll(() => service.held()).toHaveLength(1);
    const [killed] = (await service.held()) as [number];

    process.kill(killed, "SIGKILL");
    const [, name] = await service.prints(
      /ended, and is started again.*"instance":"(\w+)".*"signal":"SIGKILL"/,
    );
    await service.prints(/an instance has started/, 4);
    await expect.poll(() => service.held()).toHaveLength(2);
    await service.go();

    const job = async () => (await service.fetch("/jobs/job-1")).json();
    await expect.poll(job).toMatchObject({ status: "completed", payload: { first: killed } });
    const [, other] = await service.held();
    expect(await job()).toMatchObject({ payload: { last: other } });
    expect(service.started().find(({ pid }) => pid === killed)).toMatchObject({ instance: name });
    expect(service.started().map(({ pid }) => pid)).toContain(other);
    await service.kill();
    // Nobody is left that would start them again, or end them.
    for (const { pid } of service.started()) await expect.poll(() => isAlive(pid)).toBe(false);
  });

  it("an instance that is asked to end hands its jobs over, and no request fails", async () => {
    const service = await Service.start(2);
    await service.startJob("job-1");
    await expect.poll(() => service.held()).toHaveLength(1);
    const [first] = (await service.held()) as [number];
    const statuses = new Map<unknown, number>();
    let isOver = false;
    const ask = async () => {
      while (!isOver) {
        const status = await service.fetch("/jobs/job-1").then(
          (response) => response.status,
          (error: unknown) => error,
        );
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    };
    const asking = [ask(), ask()];

    process.kill(first, "SIGTERM");
    await service.prints(/an instance has started/, 3);
    await expect.poll(() => service.held()).toHaveLength(2);
    isOver = true;
    await Promise.all(asking);

    expect([...statuses.keys()]).toEqual([200]);
    expect((await service.held())[1]).not.toBe(first);
    expect(await service.end()).toMatchObject({ code: 0 });
  });

  it("ends with the error of an instance that cannot start", async () => {
    const cluster = await sharedCluster();
    const cwd = await project({ "controller.mjs": CONTROLLER });
    const env = { DATABASE: cluster.url, SCHEMA: cluster.newSchema(), SERVICE_PORT: "0" };
    const start = (more: Record<string, string>) =>
      svc(["start", "controller.mjs", "--instances", "3"], { cwd, env: { ...env, ...more } });

    const [broken, keyless] = await Promise.all([start({ BROKEN: "1" }), start({})]);

    expect(broken).toMatchObject({ code: 1, stderr: expect.stringMatching(/the controller is broken/) });
    expect(keyless).toMatchObject({ code: 1, stderr: expect.stringMatching(/need the same keys/) });
    for (const { stderr } of [broken, keyless]) expect(stderr.match(/Error: /g)).toHaveLength(1);
  });
});

it("several instances without a database are refused, and nothing is made", {
  timeout: PROCESS_TIME,
}, async () => {
  const cwd = await project({ "controller.mjs": CONTROLLER });

  const end = await svc(["start", "controller.mjs", "--instances", "3"], { cwd });

  expect(end).toMatchObject({ code: 1, stderr: expect.stringContaining("Set SERVICE_DATABASE_URL") });
  await expect(exists(join(cwd, "data"))).rejects.toThrow();
});

it("says where --instances does not fit", { timeout: PROCESS_TIME }, async () => {
  const cwd = await project({ "controller.mjs": CONTROLLER });
  const [none, paused, dev] = await Promise.all(
    [
      ["start", "controller.mjs", "--instances", "0"],
      ["start", "controller.mjs", "--instances", "2", "--paused"],
      ["dev", "controller.mjs", "--instances", "2"],
    ].map((args) => svc(args, { cwd })),
  );

  expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("must be 1 to 64") });
  expect(paused).toMatchObject({ code: 2, stderr: expect.stringContaining("--paused is for one instance") });
  expect(dev).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Unknown option --instances. svc start has it."),
  });
});
