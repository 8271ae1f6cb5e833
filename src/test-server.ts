import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition } from "./core/agents/define-agent.ts";
import { toSlug } from "./core/agents/identity.ts";
import type { Duration } from "./core/base/duration.ts";
import { type NamesOf, refuseUnknown } from "./core/base/refuse-unknown.ts";
import { type Serve, serveWithNode } from "./core/http/serve.ts";
import type { Case } from "./core/models/case.ts";
import type { Job } from "./core/models/job.ts";
import type { ServerOptions } from "./core/service/options.ts";
import type { Service } from "./core/service/service.ts";
import { CASES, JOBS, RUNNER, STORE } from "./core/service/tokens.ts";
import { openJsonStore } from "./core/store/json/json-store.ts";
import { createMemoryStore } from "./core/store/memory-store.ts";
import type { Store } from "./core/store/store.ts";
import { createServer } from "./server.ts";
import {
  type Answers,
  advance,
  casesOf,
  driveJob,
  type EventData,
  type TestProcess,
} from "./testing/drive-job.ts";
import { MortalStore } from "./testing/mortal-store.ts";
import { sharedRsaKey } from "./testing/rsa-key.ts";
import { TestClock } from "./testing/test-clock.ts";

/** A service for one test. It is closed and its data folder removed when it goes out of scope. */
export interface TestServer extends AsyncDisposable {
  /** The service; a new one after `crash`. */
  readonly service: Service;
  /** Address that it listens on; a new one after `crash`. */
  readonly url: string;
  /** Its API key. */
  readonly key: string;
  readonly dataDir: string;
  /** Its log so far, one line an entry. */
  readonly logs: readonly string[];
  /** Sends a request with the API key; a path is taken from `url`, an object as `json` is the body. */
  request(path: string, init?: TestRequest): Promise<Response>;
  /**
   * Starts a job of an agent, by its slug or definition, answers its questions and skips its waits until it
   * has ended, successfully or not. Rejects if it waits for an answer that is missing.
   */
  run(agent: string | AgentDefinition, options?: RunOptions): Promise<JobRun>;
  /** Sends an event to the jobs that wait for it with `job.waitFor`, now or later; resolves once it is stored. */
  sendEvent(
    name: string,
    data?: Readonly<Record<string, unknown>>,
    options?: { readonly id?: string },
  ): Promise<void>;
  /**
   * Lets a time pass immediately: sleeps, deadlines, pauses between attempts and time limits come due in
   * their order, and what they trigger happens. Running steps get a quarter of a second to end.
   */
  advance(duration: Duration): Promise<void>;
  /**
   * Ends the service as if its process were killed, and starts it again with the data stored until then.
   * Needs the store in memory, or one that instances share.
   */
  crash(): Promise<void>;
}

export interface RunOptions {
  /** Fields of the job. @default none */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** @default the agent asks nothing */
  readonly answers?: Answers;
  /** Data of the events that it waits for, by name: each wait gets one. @default none */
  readonly events?: EventData;
}

const RUN_NAMES: NamesOf<RunOptions> = { fields: true, answers: true, events: true };

/** A job that has ended. */
export interface JobRun {
  readonly job: Job;
  /** What its handler returned; `null` if it failed. */
  readonly result: unknown;
  /** Its cases, by their refs. */
  readonly cases: readonly Case[];
}

export interface TestRequest extends RequestInit {
  /** Sent as the JSON body, with POST unless another method is given. */
  readonly json?: unknown;
  /** Sent instead of the correct key; `null` sends none. */
  readonly key?: string | null;
}

/**
 * Starts a service on a free port of 127.0.0.1, with a known key, an empty data folder and, unless `store` is
 * given (`undefined` for the embedded one), a store in memory.
 *
 * @example
 * await using server = await testServer({ agents: [auditor] });
 * const { result } = await server.run(auditor, { fields: { url }, answers: { approve: { ok: true } } });
 */
export async function testServer(options: ServerOptions): Promise<TestServer> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "agent-control-service-")));
  const server = new ServerUnderTest({ store: createMemoryStore, ...options, dataDir });
  const dispose = async (): Promise<void> => {
    try {
      await server.close();
    } finally {
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    }
  };
  try {
    await server.begin();
  } catch (error) {
    await dispose().catch(() => {});
    throw error;
  }
  // Its methods work alone, and a copy has all of it.
  return {
    get service() {
      return server.service;
    },
    get url() {
      return server.url;
    },
    key: server.key,
    dataDir,
    logs: server.logs,
    request: (path, init) => server.request(path, init),
    run: (agent, given) => server.run(agent, given),
    sendEvent: (name, data, options) => server.sendEvent(name, data, options),
    advance: (duration) => server.advance(duration),
    crash: () => server.crash(),
    [Symbol.asyncDispose]: dispose,
  };
}

class ServerUnderTest implements Omit<TestServer, typeof Symbol.asyncDispose> {
  readonly key: string;
  readonly dataDir: string;
  readonly logs: string[] = [];
  readonly #options: ServerOptions;
  /** State that is kept across restarts. */
  #kept: Store | undefined;
  #store!: MortalStore;
  #clock = new TestClock();
  #service!: Service;

  constructor(options: ServerOptions & { readonly dataDir: string }) {
    this.key = options.apiKey ?? "test-key-of-this-server";
    this.dataDir = options.dataDir;
    this.#options = options;
  }

  get service(): Service {
    return this.#service;
  }

  get url(): string {
    return this.#service.url as string;
  }

  async begin(): Promise<void> {
    const clock = this.#clock;
    this.#service = createServer({
      strictSteps: true,
      build: "test",
      logLevel: "info",
      logFormat: "text",
      logTo: (line) => void this.logs.push(line),
      rsaPrivateKey: sharedRsaKey(),
      clock: clock.now,
      startTimer: clock.startTimer,
      advancedBy: () => clock.ahead,
      ...this.#options,
      host: this.#options.host ?? "127.0.0.1",
      port: this.#options.port ?? 0,
      apiKey: this.key,
      store: async (context) => {
        this.#kept ??= await (this.#options.store ?? openJsonStore)(context);
        this.#store = new MortalStore(this.#kept);
        return this.#store;
      },
    });
    await this.#service.listen({ serve: serveBriefly });
  }

  request(path: string, init?: TestRequest): Promise<Response> {
    return fetch(new URL(path, this.url), toRequestInit(init, this.key));
  }

  async run(agent: string | AgentDefinition, options: RunOptions = {}): Promise<JobRun> {
    refuseUnknown(options, RUN_NAMES, "run");
    const { fields = {}, ...given } = options;
    const slug = typeof agent === "string" ? agent : toSlug(agent.name);
    const answer = await this.request(`/agents/${slug}/jobs`, { json: { job_fields: fields } });
    if (!answer.ok) throw new Error(`The job was not started: ${await answer.text()}`);
    const { id } = (await answer.json()) as Job;
    await driveJob(this.#process, id, given);
    const job = await this.#service.get(JOBS).get(id);
    const cases = await Promise.all(
      (await casesOf(this.#service.get(STORE), id)).map((one) => this.#service.get(CASES).get(one.id)),
    );
    return { job: await this.#service.get(JOBS).show(job), result: job.result, cases };
  }

  async sendEvent(
    name: string,
    data: Readonly<Record<string, unknown>> = {},
    options: { id?: string } = {},
  ): Promise<void> {
    const answer = await this.request(`/events/${name}`, { json: { data, ...options } });
    if (!answer.ok) throw new Error(`The event was not stored: ${await answer.text()}`);
  }

  advance(duration: Duration): Promise<void> {
    return advance(this.#process, duration);
  }

  async crash(): Promise<void> {
    const isShared = this.#kept?.isShared === true;
    if (this.#options.store !== createMemoryStore && !isShared) {
      throw new Error(
        "crash() needs the store in memory, or one that instances share; to test another store, kill a separate process",
      );
    }
    const { ahead } = this.#clock;
    const service = this.#service;
    const { instance } = service.get(RUNNER);
    this.#store.die();
    this.#clock.stop();
    // Its further work is ignored, and it may never end.
    void service.close().catch(() => {});
    // Others would wait for 15 s before they claim its jobs.
    if (instance !== undefined) await this.#kept!.table("Instance").remove(instance);
    this.#clock = new TestClock(ahead);
    await this.begin();
  }

  async close(): Promise<void> {
    await this.#service?.close();
    this.#clock.stop();
  }

  get #process(): TestProcess {
    const runner = this.#service.get(RUNNER);
    const rows = this.#service.get(STORE);
    return {
      runner,
      store: this.#store,
      rows,
      clock: this.#clock,
      isWorking: () => runner.load().running > 0,
    };
  }
}

/** What `fetch` and `Request` take. */
export function toRequestInit({ json, key, ...init }: TestRequest = {}, rightKey: string): RequestInit {
  const headers = new Headers(init.headers);
  if (key !== null && !headers.has("x-api-key")) headers.set("x-api-key", key ?? rightKey);
  if (json === undefined) return { ...init, headers };
  if (!headers.has("content-type")) headers.set("content-type", "application/json");
  return { method: "POST", ...init, headers, body: JSON.stringify(json) };
}

/** No proxy sends anything to a service under test that closes. */
const serveBriefly: Serve = async (app, options) => {
  const server = await serveWithNode(app, options);
  return { ...server, close: (force) => server.close(force) };
};
