import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Order } from "../../src/cli/control/behaviour.ts";
import type { Received } from "../../src/cli/control/inbox.ts";
import { findBuild } from "../_built.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const ACCOUNT_KEY = "account-key-of-the-tests";

/** `svc control` as a process of its own. */
export interface Control extends AsyncDisposable {
  readonly url: string;
  readonly account: { workspace_id: string; api_key: string; api_url: string };
  /** What it has taken so far, in the order of arrival. */
  received(): Promise<Received[]>;
  /** Waits until it has taken `count` different events; resolves with the events. */
  waitFor(count: number, seconds?: number): Promise<Received[]>;
  obey(order: Order): Promise<void>;
  request(path: string, init: RequestInit): Promise<Response>;
  /** Ends it immediately, as a crash would. */
  kill(): Promise<void>;
}

/** Resolves with the first match of a pattern in a process's output. */
export function outputOf(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk) => {
      text += chunk;
      const match = pattern.exec(text);
      if (match) resolve(match);
    });
    child.once("exit", (code) => reject(new Error(`ended with ${code} before ${pattern}: ${text}`)));
  });
}

export async function killNow(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

/** Starts `svc control` on a free port, or on one that an earlier one had. */
export async function startControl(...args: string[]): Promise<Control> {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  const words = ["control", "--quiet", ...port, ...args];
  const child = spawn(process.execPath, [join(await findBuild(), "dist/cli.js"), ...words], {
    cwd: ROOT,
    env: { ...process.env, SERVICE_ACCOUNT_API_KEY: ACCOUNT_KEY },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [, url] = await outputOf(child, /at (http:\/\/[^/]+)\//);
  child.stdout?.resume();
  const request = (path: string, init: RequestInit) => fetch(`${url}${path}`, init);

  const received = async (): Promise<Received[]> => {
    const response = await request("/_control/received?limit=100000", {});
    return ((await response.json()) as { items: Received[] }).items;
  };
  return {
    url: url as string,
    account: { workspace_id: "dev", api_key: ACCOUNT_KEY, api_url: url as string },
    received,
    async waitFor(count, seconds = 60) {
      const end = Date.now() + seconds * 1000;
      for (;;) {
        const items = (await received()).filter((item) => item.kind === "event");
        const distinct = new Set(items.map((item) => item.key)).size;
        if (distinct >= count) return items;
        if (Date.now() > end)
          throw new Error(`only ${distinct} of ${count} messages came: ${summary(items)}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async obey(order) {
      const response = await request("/_control/mode", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(order),
      });
      if (!response.ok) throw new Error(await response.text());
    },
    request,
    kill: () => killNow(child),
    [Symbol.asyncDispose]: () => killNow(child),
  };
}

/** One `svc control` for the tests of a file, empty and obedient at the start of each. */
export function sharedControl(...args: string[]): () => Control {
  let control: Control | undefined;
  beforeAll(async () => {
    control = await startControl(...args);
  }, 120_000);
  beforeEach(async () => {
    await control?.obey({ mode: "ok" });
    await control?.request("/_control/received", { method: "DELETE" });
  });
  afterAll(() => control?.kill());
  return () => control as Control;
}

function summary(items: readonly Received[]): string {
  return items.map(({ body }) => (body as { event_type?: string }).event_type).join(", ");
}

/** Messages as the receiver counts them: each key once, where it came first. */
export function distinct(items: readonly Received[]): Received[] {
  return items.filter((item) => !item.duplicate);
}

export interface EventBody {
  readonly source: Record<string, string>;
  readonly event_type: string;
  readonly object_type: string;
  readonly details: Record<string, unknown>;
}

export function bodies(items: readonly Received[]): EventBody[] {
  return distinct(items)
    .filter((item) => item.kind === "event")
    .map((item) => item.body as EventBody);
}
