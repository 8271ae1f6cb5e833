import { defineAgent, type ServerOptions } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe } from "vitest";
import { toRequestInit } from "../src/test-server.ts";

/** An agent that does next to nothing. */
export const greeter = defineAgent({
  name: "Greeter",
  version: "1.0.0",
  description: "Says hello",
  methods: {
    job_start: {
      fields: [{ name: "name", field_type: "CharField", required: true }],
      run: ({ fields }) => ({ message: `Hello ${String(fields.name)}` }),
    },
  },
});

/** How a case talks to the service: by calling it, or through a socket. */
export interface Transport {
  readonly name: "in process" | "over a socket";
  start(options?: Partial<ServerOptions>): Promise<TestServer>;
}

const TRANSPORTS: readonly Transport[] = [
  {
    name: "in process",
    async start(options) {
      const server = await start(options);
      const request = (path: string, init?: Parameters<TestServer["request"]>[1]) =>
        server.service.fetch(new Request(new URL(path, server.url), toRequestInit(init, server.key)));
      return { ...server, request, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
    },
  },
  { name: "over a socket", start: (options) => start(options) },
];

function start(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  return testServer({ agents: [greeter], ...options });
}

/** Runs the same cases in process and over a real socket; every case starts a server of its own. */
export function describeServer(name: string, cases: (transport: Transport) => void): void {
  for (const transport of TRANSPORTS) describe(`${name}, ${transport.name}`, () => cases(transport));
}
