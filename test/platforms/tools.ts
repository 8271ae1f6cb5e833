import { createDeployTools } from "../../src/deploy/create-tools.ts";
import type { Journal } from "../../src/deploy/journal.ts";
import type { DeployTools } from "../../src/deploy/tools.ts";

export interface TestToolsOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly journal?: Journal;
  /** Address that answers for a host of the cloud, or nothing for hosts as they are. */
  readonly frontFor: (host: string) => string | undefined;
  readonly said?: string[];
}

/** Tools with the real network, whose waiting takes no time and whose clock moves on by what was waited. */
export function testTools({
  env,
  journal,
  frontFor,
  said,
}: TestToolsOptions): DeployTools & { slept(): number } {
  let slept = 0;
  const begun = Date.now();
  const tools = createDeployTools({
    cwd: process.cwd(),
    env: { HOME: "/nonexistent", PATH: process.env.PATH, ...env },
    ...(journal === undefined ? {} : { journal }),
    ...(said === undefined ? {} : { onReport: (message) => said.push(message) }),
    fetch: frontFetch(frontFor),
    now: () => new Date(begun + slept),
    sleep: async (milliseconds) => {
      slept += milliseconds;
    },
  });
  return Object.create(tools, { slept: { value: () => slept } });
}

/** The global `fetch`, with the hosts of a cloud led to its emulator. */
export function frontFetch(frontFor: (host: string) => string | undefined): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    const front = frontFor(url.host);
    if (front === undefined) return fetch(input, init);
    const headers = new Headers(request.headers);
    headers.set("x-forwarded-host", url.host);
    return fetch(`${front}${url.pathname}${url.search}`, {
      method: request.method,
      headers,
      ...(init?.body ? { body: init.body } : {}),
      signal: request.signal,
    });
  };
}
