import { defineAgent, defineChat } from "agent-control-service";
import { type AddedRoute, JOBS, ROUTER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { REVOKED_TOKENS } from "../../src/core/service/tokens.ts";

/** What no page may learn from the state of a job. */
const INNER = [
  "the-prompt",
  "the-tool-input",
  "the-finding",
  "the-thought",
  "the-field",
  "the-reason",
  "the-mission",
];

let finish = (): void => {};
const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ what: v.string() }),
      async run({ job }) {
        const input = { messages: [{ role: "system", content: "the-prompt" }] };
        const write = (info: { emit(chunk: unknown): void }) => {
          info.emit({ type: "reasoning", text: "the-thought" });
          info.emit("emitted text");
          return new Promise((resolve) => {
            finish = () => resolve({ text: "the-finding" });
          });
        };
        await job.step("ask the model", (info) => write(info), {
          kind: "model",
          input,
          cost: 3,
        });
        const item = await job.openCase({ id: `case-${job.id}`, name: "one case" });
        await item.step("use a tool", () => ({ found: "the-finding" }), {
          kind: "tool",
          input: "the-tool-input",
        });
        await item.ask({ question: "Is this right?", fields: v.object({ fine: v.boolean() }) });
        await item.close({ delivered: "a delivery" });
        throw Object.assign(new Error("it broke"), { stack: "Error: it broke\n at /srv/secret/path.js:1:1" });
      },
    },
  },
});
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });

let server: TestServer;
let routes: readonly AddedRoute[];
beforeAll(async () => {
  server = await testServer({ agents: [worker, talker] });
  routes = server.service.get(ROUTER).routes.filter(({ token }) => token);
});
afterAll(() => server[Symbol.asyncDispose]());

async function start(job_id: string): Promise<void> {
  const job_context = { job_id, mission_context: { why: "the-mission" } };
  await server.request("/agents/worker/jobs", { json: { job_context, job_fields: { what: "the-field" } } });
}

async function make(job: string, json: object = {}): Promise<string> {
  const response = await server.request(`/jobs/${job}/tokens`, { json });
  expect(response.status).toBe(201);
  return ((await response.json()) as { token: string }).token;
}

const withToken = (token: string, path: string, init: RequestInit = {}) =>
  fetch(server.url + path, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } });

/** All that arrives on a stream until it ends. */
function follow(token: string, job: string) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const stream = { text: "", isOver: false };
  void (async () => {
    const response = await withToken(token, `/jobs/${job}/stream`, { signal: stop.signal });
    for await (const bytes of response.body!) stream.text += Buffer.from(bytes).toString();
    stream.isOver = true;
  })().catch(() => {
    stream.isOver = true;
  });
  return stream;
}

const status = async (job: string) => (await server.service.get(JOBS).get(job)).status;

/** Starts a job, follows it with a token, and reads what the token reads while it asks and once it has ended. */
async function readAll(job: string, scopes?: readonly string[]) {
  await start(job);
  const token = await make(job, scopes && { scopes });
  const stream = follow(token, job);
  await expect.poll(() => stream.text).toContain("emitted text");
  const read = async () => {
    const texts: string[] = [];
    for (const { method, path } of routes) {
      if (method !== "GET" || path.includes("{sha256}")) continue;
      if (path.endsWith("/stream") && !stream.isOver) continue;
      texts.push(await (await withToken(token, path.replace("{id}", job))).text());
    }
    return texts.join("\n");
  };
  const running = await read();
  finish();
  await expect.poll(() => status(job)).toBe("awaiting");
  const asking = await read();
  const answer = { answer: { fine: true }, message: "the-reason" };
  await server.request(`/jobs/${job}/cases/case-${job}/update`, { json: answer });
  await expect.poll(() => stream.isOver).toBe(true);
  return { stream: stream.text, running, asking, ended: await read() };
}

describe("a token of a job", () => {
  it("shows the state by default: progress, questions, what is emitted, result or error, and nothing of the record", async () => {
    const { stream, running, asking, ended } = await readAll("state");

    const all = stream + running + asking + ended;
    expect([...INNER, "/srv/secret/path.js"].filter((inner) => all.includes(inner))).toEqual([]);
    expect(all).not.toContain('"cost":3');
    expect(asking).toContain("Is this right?");
    expect(stream).toContain('"name":"ask the model"');
    expect(stream).toContain('"name":"use a tool"');
    expect(stream).toContain('"to":"awaiting"');
    expect(ended).toContain("a delivery");
    expect(ended).toContain("it broke");
    expect(stream).toContain('event: end\ndata: {"status":"failed"}');
  });

  it("shows the record where it was made for that, without stack traces", async () => {
    const { stream, running, asking, ended } = await readAll("record", ["record"]);

    const all = stream + running + asking + ended;
    expect(INNER.filter((inner) => !all.includes(inner))).toEqual([]);
    expect(all).not.toContain("/srv/secret/path.js");
    // The same with a key of the service.
    const whole = await (await server.request("/jobs/record/stream")).text();
    expect(whole).toContain("the-prompt");
  });

  it("shows what was said to who writes in a thread, and no message of its system", async () => {
    const history = [
      { role: "system", content: "the-prompt" },
      { role: "user", content: "said before" },
    ];
    const json = { job_context: { job_id: "thread" }, job_fields: { message: "hello", history } };
    await server.request("/agents/talker/jobs", { json });
    const token = await make("thread", { scopes: ["status", "message"] });
    const state = await make("thread");
    const stream = follow(token, "thread");
    const quiet = follow(state, "thread");

    const sent = await withToken(token, "/jobs/thread/messages", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ content: "a second one" }),
    });

    expect(sent.status).toBe(202);
    await expect.poll(() => stream.text).toContain('"content":"a second one"');
    await expect.poll(() => quiet.text).toContain('"call":"event"');
    expect(stream.text).toContain('"message":"hello"');
    expect(stream.text).toContain("said before");
    expect(stream.text + quiet.text).not.toContain("the-prompt");
    expect(quiet.text).not.toMatch(/hello|said before|a second one/);
  });

  it("is refused with its former scopes, by a message that names the present ones", async () => {
    await start("former");
    const response = await server.request("/jobs/former/tokens", { json: { scopes: ["read", "answer"] } });

    expect(response.status).toBe(422);
    expect(await response.text()).toContain('\\"read\\" is \\"status\\" now, or \\"record\\"');
  });
});

describe("revoking tokens", () => {
  it("refuses those that were made before it and ends their streams; later ones work", async () => {
    await start("revoked");
    const [token, other] = [await make("revoked", { name: "Ada" }), await make("revoked")];
    const stream = follow(token, "revoked");
    await expect.poll(() => stream.text).toContain("event: snapshot");

    const response = await server.request("/jobs/revoked/tokens", { method: "DELETE" });
    const later = await make("revoked", { name: "Ada" });

    expect(await response.json()).toEqual({ job_id: "revoked", name: null });
    const statuses = [token, other, later].map(async (one) => (await withToken(one, "/jobs/revoked")).status);
    expect(await Promise.all(statuses)).toEqual([401, 401, 200]);
    await expect.poll(() => stream.isOver).toBe(true);
    const audit = await (await server.request("/admin/api/audit?action=job.token_revoke")).text();
    expect(audit).toContain('"id":"revoked"');
  });

  it("holds nothing more for a token that is used again and again", () => {
    const revoked = server.service.get(REVOKED_TOKENS);
    const token = { job: "j", name: "Ada", marks: [0, 0] as const, exp: 4e9 };
    const [maker, other] = [new AbortController().signal, new AbortController().signal];

    expect(revoked.over(token, undefined)).toBe(revoked.over(token, undefined));
    expect(revoked.over(token, maker)).toBe(revoked.over({ ...token, exp: 5e9 }, maker));
    expect(revoked.over(token, other)).not.toBe(revoked.over(token, maker));
    expect(revoked.over({ ...token, name: "Bob" }, maker)).not.toBe(revoked.over(token, maker));
  });

  it("by name leaves those of others, and tokens of other jobs", async () => {
    await start("named");
    await start("beside");
    const tokens = [
      ["named", await make("named", { name: "Ada" })],
      ["named", await make("named", { name: "Bob" })],
      ["named", await make("named")],
      ["beside", await make("beside", { name: "Ada" })],
    ] as const;
    const streams = tokens.map(([job, token]) => follow(token, job));
    for (const stream of streams) await expect.poll(() => stream.text).toContain("event: snapshot");

    await server.request("/jobs/named/tokens?name=Ada", { method: "DELETE" });

    const statuses = tokens.map(async ([job, token]) => (await withToken(token, `/jobs/${job}`)).status);
    expect(await Promise.all(statuses)).toEqual([401, 200, 200, 200]);
    await expect.poll(() => streams[0]!.isOver).toBe(true);
    expect(streams.slice(1).map(({ isOver }) => isOver)).toEqual([false, false, false]);
  });

  it("is a page, too, and no token can do it", async () => {
    await start("by-page");
    const token = await make("by-page", { scopes: ["record", "answer", "message", "stop"] });
    const own = await withToken(token, "/jobs/by-page/tokens", { method: "DELETE" });
    const form = await server.request("/admin/jobs/by-page/revoke-tokens", {
      headers: { accept: "text/html" },
    });
    const page = await form.text();

    const sent = await server.request("/admin/jobs/by-page/revoke-tokens", {
      ...{ method: "POST", redirect: "manual" },
      headers: { accept: "text/html", "content-type": "application/x-www-form-urlencoded" },
    });

    expect(own.status).toBe(401);
    expect(page).toContain("Revoke the tokens of this job?");
    expect([sent.status, (await withToken(token, "/jobs/by-page")).status]).toEqual([303, 401]);
    expect((await server.request("/jobs/none/tokens", { method: "DELETE" })).status).toBe(404);
  });

  it("outlasts a restart", async () => {
    const options = { agents: [worker], store: undefined };
    const first = await testServer(options);
    await first.request("/agents/worker/jobs", {
      json: { job_context: { job_id: "kept" }, job_fields: { what: "x" } },
    });
    const make = async ({ request }: TestServer) =>
      ((await (await request("/jobs/kept/tokens", { json: {} })).json()) as { token: string }).token;
    const read = async ({ url }: TestServer, token: string) =>
      (await fetch(`${url}/jobs/kept`, { headers: { authorization: `Bearer ${token}` } })).status;
    const token = await make(first);
    await first.request("/jobs/kept/tokens", { method: "DELETE" });
    await first.service.close();

    await using second = await testServer({ ...options, dataDir: first.dataDir, apiKey: first.key });

    expect([await read(second, token), await read(second, await make(second))]).toEqual([401, 200]);
  });
});
