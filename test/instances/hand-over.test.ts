// @losses
// @area core
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type AgentDefinition, createServer as createService, defineAgent } from "agent-control-service";
import { expect, onTestFinished, test } from "vitest";
import { readServerEvents } from "../../src/client/server-events.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { gate } from "../runs/_agent.ts";
import { jobContext } from "../runs/_jobs.ts";
import { SharedStore } from "./_instances.ts";

/** How many instances are replaced, one after another. */
const HAND_OVERS = Number(process.env.SVC_HAND_OVERS ?? 4);
/** Clients that start and follow jobs all the time. */
const CLIENTS = 6;

/** A proxy that keeps connections open, asks for the health of the instances, and repeats nothing that it has sent. */
async function proxy(instances: () => readonly string[]) {
  const agent = new Agent({ keepAlive: true });
  const failures: string[] = [];
  let next = 0;
  let healthy: readonly string[] = instances();
  const check = setInterval(async () => {
    const ask = async (url: string) => {
      const response = await fetch(`${url}/.well-known/health`).catch(() => undefined);
      return response?.ok ? [url] : [];
    };
    healthy = (await Promise.all(instances().map(ask))).flat();
  }, 50);
  const forward = (
    incoming: IncomingMessage,
    body: Buffer,
    outgoing: ServerResponse,
    left: string[],
  ): void => {
    const { method, url, headers } = incoming;
    const target = left.shift();
    const fail = (why: string) => {
      failures.push(`${method} ${url}: ${why}`);
      outgoing.destroy();
    };
    if (target === undefined) {
      fail("no instance accepts it");
      return;
    }
    const sent = request(new URL(url!, target), { method, headers, agent }, (answer) => {
      if (answer.statusCode! >= 400) failures.push(`${method} ${url}: ${answer.statusCode}`);
      outgoing.writeHead(answer.statusCode!, { ...answer.headers, connection: "keep-alive" });
      answer.pipe(outgoing);
      answer.on("error", () => fail("its response broke off"));
    });
    sent.on("error", (error: NodeJS.ErrnoException): void => {
      // Nothing was sent.
      if (error.code === "ECONNREFUSED") forward(incoming, body, outgoing, left);
      else fail(`${error.code}, on a connection that was ${sent.reusedSocket ? "open" : "new"}`);
    });
    sent.end(body);
  };
  const server = createServer(async (incoming, outgoing) => {
    const body: Buffer[] = [];
    for await (const part of incoming) body.push(part as Buffer);
    const all = healthy;
    const first = next++;
    const left = all.map((_, n) => all[(first + n) % all.length]!);
    forward(incoming, Buffer.concat(body), outgoing, left);
  });
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    clearInterval(check);
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, failures };
}

const ran: string[] = [];
const steps = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        for (const name of ["one", "two", "three", "four"])
          await job.step(name, async () => {
            await delay(10);
            ran.push(`${job.id} ${name}`);
          });
        return "done";
      },
    },
  },
});

test(`no request fails while ${HAND_OVERS} instances in a row are replaced under load, and no stream misses a line`, async () => {
  const store = new SharedStore();
  const instances = [await start(steps, store), await start(steps, store)];
  const { url, failures } = await proxy(() => instances.map((one) => one.url!));
  const headers = { "X-API-Key": KEY, "Content-Type": "application/json" };
  let isOver = false;
  const ended: string[] = [];
  const client = async (name: number): Promise<void> => {
    for (let n = 1; !isOver; n++) {
      const id = `job-${name}-${n}`;
      const body = JSON.stringify({ job_context: jobContext(id), job_fields: {} });
      const prefer: Record<string, string> = n % 2 === 0 ? { Prefer: "wait=5" } : {};
      const sent = { method: "POST", headers: { ...headers, ...prefer }, body };
      await (await fetch(`${url}/agents/worker/jobs`, sent)).text();
      const event = JSON.stringify({ id, data: {} });
      await (await fetch(`${url}/events/ping`, { method: "POST", headers, body: event })).text();
      await follow(id);
      ended.push(id);
    }
  };
  /** As a browser does: a stream that ends is opened again behind the last line that it has shown. */
  const follow = async (id: string): Promise<void> => {
    const lines: number[] = [];
    for (;;) {
      const last: Record<string, string> = lines.length > 0 ? { "Last-Event-ID": String(lines.at(-1)) } : {};
      const stream = await fetch(`${url}/jobs/${id}/stream`, { headers: { ...headers, ...last } });
      // The last line was sent, and the job has ended since.
      let isEnded = stream.status === 204;
      for await (const { event, id: line } of isEnded ? [] : readServerEvents(stream.body!)) {
        if (line !== undefined) lines.push(Number(line));
        if (event !== "end") continue;
        isEnded = true;
        break;
      }
      if (isEnded) {
        expect(lines, id).toEqual(lines.map((_, at) => at + 1));
        return;
      }
      await delay(20);
    }
  };

  const load = Promise.all(
    Array.from({ length: CLIENTS }, async (_, name) => {
      await client(name).catch((error: Error) => failures.push(`${error.message}: ${String(error.cause)}`));
    }),
  );
  for (let n = 0; n < HAND_OVERS; n++) {
    instances.push(await start(steps, store));
    const before = ended.length;
    await instances[0]!.close();
    instances.shift();
    await expect.poll(() => ended.length).toBeGreaterThan(before);
  }
  isOver = true;
  await load;

  expect(failures).toEqual([]);
  const jobs = await Promise.all(
    ended.map(
      async (id) => (await fetch(`${url}/jobs/${id}`, { headers })).json() as Promise<{ status: string }>,
    ),
  );
  expect(new Set(jobs.map(({ status }) => status))).toEqual(new Set(["completed"]));
  expect(new Set(ran).size).toBe(ran.length);
  expect(ran.length).toBe(4 * ended.length);
});

test("an instance that closes beside others answers what is under way and what comes for a while, and closes the connections", async () => {
  const [begun, held] = [gate(), gate()];
  const slow = defineAgent({
    name: "Slow",
    version: "1.0.0",
    methods: {
      job_start: { run: () => "done" },
      custom: {
        wait: {
          run: async () => {
            begun.open();
            await held.opened;
            return "answered";
          },
        },
      },
    },
  });
  const service = await start(slow, new SharedStore());
  const { port } = new URL(service.url!);
  const [busy, idle] = [await open(Number(port)), await open(Number(port))];
  const ask = (path: string, method = "GET", body = "") =>
    `${method} ${path} HTTP/1.1\r\nHost: test\r\nX-API-Key: ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  idle.write(ask("/jobs"));
  expect(await idle.next()).toMatch(/^HTTP\/1\.1 200.*connection: keep-alive/is);
  busy.write(ask("/agents/slow/custom/wait", "POST", "{}"));
  await begun.opened;

  const closed = service.close();
  const other = await open(Number(port));
  const body = JSON.stringify({ job_context: jobContext("late"), job_fields: {} });
  idle.write(ask("/agents/slow/jobs", "POST", body));

  expect(await idle.next()).toMatch(/^HTTP\/1\.1 20\d.*connection: close/is);
  other.write(ask("/.well-known/health"));
  expect(await other.next()).toMatch(/^HTTP\/1\.1 503.*connection: close.*is closing/is);
  held.open();
  expect(await busy.next()).toMatch(/^HTTP\/1\.1 200.*connection: close.*answered/is);
  await closed;
  await expect(open(Number(port))).rejects.toThrow("ECONNREFUSED");
});

const KEY = "test-key-of-all-instances";

/** An instance with everything that it has outside of tests. */
async function start(agent: AgentDefinition, store: SharedStore) {
  const dataDir = await mkdtemp(join(tmpdir(), "svc-hand-over-"));
  const keys = { apiKey: KEY, rsaPrivateKey: sharedRsaKey() };
  const quiet = { admin: false, logTo: () => {} };
  const service = createService({ agents: [agent], store: store.open, port: 0, dataDir, ...keys, ...quiet });
  onTestFinished(async () => {
    await service.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  return service.listen();
}

async function open(port: number) {
  const socket: Socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return {
    write: (text: string) => void socket.write(text),
    /** What comes next. */
    next: () => new Promise<string>((resolve) => socket.once("data", (data) => resolve(String(data)))),
  };
}
