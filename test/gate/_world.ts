import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { admin } from "agent-control-service";
import { type AddedRoute, JOBS, PARAMETERS, ROUTER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { mcp } from "../../src/mcp.ts";
import { signIn } from "../admin/_sign-in.ts";
import { jobContext } from "../http/_jobs.ts";
import { clerk, talker, VARIABLE } from "./_clerk.ts";
import { guest } from "./_guest.ts";
import { type Got, type Sent, send } from "./_send.ts";

/** Largest body that the suite's service takes, bytes. */
export const LIMIT = 50_000;

/** Planted where secrets are; none of them may come out anywhere. */
export const CANARIES = {
  apiKey: "canary-of-the-api-key-51c2",
  accountKey: "canary-of-the-account-key-9e07",
  parameter: 'canary "of" a/parameter+ü 77d4',
  variable: "canary-of-a-variable-03ab",
} as const;

/** A service with everything in it, and what came out of it. */
export interface World extends AsyncDisposable {
  readonly server: TestServer;
  readonly url: string;
  readonly key: string;
  readonly routes: readonly AddedRoute[];
  /** Cookie header of a person who is signed in. */
  readonly cookie: string;
  /** Parameters that hold a canary, encrypted. */
  readonly sealed: string;
  /** Everything that the service has said so far, beside answers: log and events. */
  said(): string;
  /** A minute passes for the service. */
  skipMinute(): void;
  /** Starts a job and waits until it has come to rest; resolves with its id. */
  job(mode?: "tell" | "ask" | "fail" | "spend"): Promise<string>;
  send(sent: Sent): Promise<Got>;
}

/** Starts the service of the suite, linked to a control system. */
export async function openWorld(): Promise<World> {
  const events: string[] = [];
  const control = await listen((text) => events.push(text));
  process.env[VARIABLE] = CANARIES.variable;
  let passed = 0;
  const server = await testServer({
    // The real one: only it can be backed up.
    store: undefined,
    agents: [clerk, talker],
    schedules: [{ id: "yearly", cron: "@yearly", agent: clerk, catchUp: "none" }],
    apiKey: CANARIES.apiKey,
    account: { workspace_id: "w", api_key: CANARIES.accountKey, api_url: urlOf(control) },
    // Hours pass in this suite.
    plugins: [guest, admin({ sessionIdleMinutes: 0 }), mcp(), a2a(), agUi()],
    bodyLimit: LIMIT,
    logLevel: "debug",
    maxConcurrentJobs: 100,
    clock: () => new Date(Date.now() + passed),
  });
  const { service, url, key } = server;
  const sealed = service.get(PARAMETERS).encrypt(JSON.stringify({ TOKEN: CANARIES.parameter }));
  let count = 0;
  const cookie = await signIn(server, "Tester");

  return {
    server,
    url,
    key,
    cookie,
    sealed,
    routes: service.get(ROUTER).routes,
    said: () => [...server.logs, ...events].join("\n"),
    skipMinute: () => {
      passed += 61_000;
    },
    async job(mode = "ask") {
      const id = `job-${++count}`;
      const job_instructions = mode === "spend" ? { max_cost: 1 } : null;
      const body = {
        job_context: { ...jobContext(id), job_instructions },
        job_fields: { mode },
        encrypted_agent_parameters: sealed,
      };
      const started = await server.request("/agents/clerk/jobs", { json: body });
      if (started.status !== 202) throw new Error(`The job was not started: ${await started.text()}`);
      for (;;) {
        const { status } = await service.get(JOBS).get(id);
        if (["awaiting", "completed", "failed"].includes(status)) return id;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    send: (sent) => send(url, sent),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      control.close();
      delete process.env[VARIABLE];
    },
  };
}

/** Takes whatever is posted to it. */
async function listen(heard: (text: string) => void): Promise<Server> {
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    request.on("end", () => {
      heard(`${request.url} ${text}`);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
