// Loaded into `svc` before all else (node --import): the public addresses of the emulated clouds lead to their
// emulators, as DNS would have it, and waiting takes no time but moves the clock on. The arguments of every process that
// it starts are written down.
import { subscribe } from "node:diagnostics_channel";
import { appendFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";

/** Ends of host names, each with the address that answers for them. */
const FRONTS = JSON.parse(process.env.CLOUD_FRONTS ?? "[]");

subscribe("child_process", ({ process: child }) => {
  // Its arguments are set behind this call.
  process.nextTick(() => appendFileSync(process.env.STARTED_PROCESSES, `${child.spawnargs?.join(" ")}\n`));
});

const { fetch: request, Date: Clock } = globalThis;
const wait = timers.setTimeout;
let ahead = 0;

globalThis.Date = class extends Clock {
  constructor(...parts) {
    if (parts.length === 0) super(Clock.now() + ahead);
    else super(...parts);
  }
  static now() {
    return Clock.now() + ahead;
  }
};

timers.setTimeout = async (milliseconds, value, options) => {
  const answer = await wait(Math.min(milliseconds, 5), value, options);
  ahead += milliseconds;
  return answer;
};
syncBuiltinESMExports();

globalThis.fetch = async (input, init) => {
  const asked = new Request(input, init);
  const { host, pathname, search } = new URL(asked.url);
  const front = FRONTS.find(([end]) => host.endsWith(end))?.[1];
  if (front === undefined) return request(input, init);
  const headers = new Headers(asked.headers);
  headers.set("x-forwarded-host", host);
  const { method, signal } = asked;
  const body = method === "GET" || method === "HEAD" ? undefined : await asked.arrayBuffer();
  return request(`${front}${pathname}${search}`, { method, headers, signal, body });
};
