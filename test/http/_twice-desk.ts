import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { access, project } from "../cli/_svc.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { CONTROLLER } from "./_twice-controller.ts";

/** A request as a client sends it. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Got {
  readonly status: number;
  /** JSON where it is that, else the text. */
  readonly body: unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of all routes.
export type Json = any;

/** The service under test, and all that can be counted of what it does. */
export class TwiceDesk {
  readonly service: ServiceProcess;
  readonly #hooks: Hooks;
  readonly #env: Record<string, string>;
  #access = { url: "", key: "" };

  private constructor(service: ServiceProcess, hooks: Hooks, env: Record<string, string>) {
    this.service = service;
    this.#hooks = hooks;
    this.#env = env;
  }

  static async open(): Promise<TwiceDesk> {
    const hooks = await openHooks();
    const env = { HOOKS: hooks.url };
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }), env);
    const desk = new TwiceDesk(service, hooks, env);
    desk.#access = await access(service.folder);
    return desk;
  }

  async restart(): Promise<void> {
    await this.service.start(this.#env);
    this.#access = await access(this.service.folder);
  }

  get hooksUrl(): string {
    return this.#hooks.url;
  }

  /** Sends a request; its body is unread. */
  begin({ method, path, json, headers = {} }: Sent): Promise<Response> {
    const { url, key } = this.#access;
    return fetch(url + path, {
      method,
      redirect: "manual",
      headers: {
        ...{ "x-api-key": key, authorization: `Bearer ${key}` },
        ...{ "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      },
      ...(json !== undefined && { body: typeof json === "string" ? json : JSON.stringify(json) }),
    });
  }

  async send(sent: Sent): Promise<Got> {
    return read(await this.begin(sent));
  }

  /** Asks for something that must be there. */
  async get(path: string): Promise<Json> {
    const { status, body } = await this.send({ method: "GET", path });
    if (status >= 400) throw new Error(`GET ${path} answered ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  /** Does something that must succeed. */
  async make(path: string, json?: unknown, method = "POST", headers = {}): Promise<Json> {
    const { status, body } = await this.send({ method, path, json, headers });
    if (status >= 400) throw new Error(`${method} ${path} answered ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  /** Starts a job of this id and waits until it has this status. */
  async job(id: string, mode: string, until: string, more: object = {}, agent = "clerk"): Promise<void> {
    const job_context = { job_id: id, mission_name: id, ...more };
    await this.make(`/agents/${agent}/jobs`, { job_context, job_fields: { what: id, mode } });
    await this.status(id, until);
  }

  async status(id: string, until: string): Promise<void> {
    await expect.poll(async () => (await this.get(`/jobs/${id}`)).status, { message: id }).toBe(until);
  }

  /** Lines of the audit log of an action about something. */
  async audit(action: string, target = ""): Promise<number> {
    const { items } = await this.get(`/admin/api/audit?limit=200&action=${action}&target=${target}`);
    return items.length;
  }

  /** How many jobs have this id or name, or are of this agent. */
  async jobs(query: string): Promise<number> {
    return (await this.get(`/admin/api/jobs?limit=1&${query}`)).total;
  }

  /** How often agents really did something: once under each key. */
  async did(what: string): Promise<number> {
    const text = await readFile(join(this.service.folder, "did.log"), "utf8").catch(() => "");
    return new Set(text.split("\n").filter((line) => line.startsWith(`${what} `))).size;
  }

  /** The same for what has no key: it counts each time. */
  async didEach(what: string): Promise<number> {
    const text = await readFile(join(this.service.folder, "did.log"), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line === what).length;
  }

  /** How many different messages about something a receiver has accepted. */
  delivered(receiver: string, about: string): number {
    const got = this.#hooks.got.filter((one) => one.receiver === receiver && one.text.includes(about));
    return new Set(got.map(({ key }) => key)).size;
  }

  /** From now on the receiver that refuses all takes what is about this. */
  accept(about: string): void {
    this.#hooks.accepted.push(about);
  }

  async isGone(path: string): Promise<number> {
    return Number((await this.send({ method: "GET", path })).status === 404);
  }
}

export async function read(response: Response): Promise<Got> {
  const text = await response.text();
  try {
    return { status: response.status, body: JSON.parse(text) };
  } catch {
    return { status: response.status, body: text };
  }
}

type Hooks = Awaited<ReturnType<typeof openHooks>>;

/** Receives webhooks; `picky` refuses permanently what was not announced. */
async function openHooks() {
  const got: { receiver: string; key: string; text: string }[] = [];
  const accepted: string[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    request.on("end", () => {
      const receiver = request.url!.slice(1);
      if (receiver === "picky" && !accepted.some((about) => text.includes(about))) {
        response.writeHead(400).end();
        return;
      }
      const { "webhook-id": id, "x-a2a-notification-token": token } = request.headers;
      got.push({ receiver, key: String(id ?? `${token} ${text}`), text });
      response.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { got, accepted, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
