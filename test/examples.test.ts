// @alone
import { execFileSync } from "node:child_process";
import { createHash, generateKeyPairSync, verify } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition, Case } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { assistant } from "../examples/assistant/controller.ts";
import { contractReview } from "../examples/contract-review/agent.ts";
import { signReport } from "../examples/contract-review/report.ts";
import all from "../examples/controller.ts";
import { hello } from "../examples/hello/controller.ts";
import { invoiceAudit } from "../examples/invoice-audit/agent.ts";
import { llmTriage } from "../examples/llm-triage/agent.ts";
import { logWatch } from "../examples/log-watch/agent.ts";
import { replyDesk } from "../examples/reply-desk/controller.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-examples-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function start(server: TestServer, slug: string, fields: Record<string, unknown>): Promise<void> {
  const response = await server.request(`/agents/${slug}/jobs`, {
    json: { job_context: { job_id: "job-1" }, job_fields: fields },
  });
  expect(response.status, await response.clone().text()).toBe(202);
}

async function end(server: TestServer) {
  return until(
    () => server.service.get(JOBS).get("job-1"),
    (job) => job.finished_at !== null,
  );
}

async function cases(server: TestServer): Promise<Case[]> {
  return (await server.request("/jobs/job-1/cases?limit=1000")).json() as Promise<Case[]>;
}

async function until<T>(read: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (let tries = 0; tries < 2400; tries++) {
    const value = await read();
    if (isDone(value)) return value;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error("It did not happen within two minutes");
}

const serve = (agent: AgentDefinition) => testServer({ agents: [agent] });

describe("the examples", () => {
  it("are served together by npm start", () => {
    expect(all.options.agents.map((agent) => agent.name)).toEqual([
      "Reply Desk",
      "Assistant",
      "Contract Review",
      "Invoice Audit",
      "Log Watch",
      "Hello",
    ]);
  });

  it("hello greets everybody", async () => {
    await using server = await serve(hello);

    await start(server, "hello", { names: "Ada, Grace" });

    expect(await end(server)).toMatchObject({
      status: "completed",
      result: { message: "Everybody has been greeted" },
    });
    expect((await cases(server)).map((item) => [item.id, item.final_delivery])).toEqual([
      ["ada", { greeting: "Hello Ada!" }],
      ["grace", { greeting: "Hello Grace!" }],
    ]);
  });
});

async function openQuestions(server: TestServer, count: number): Promise<Case[]> {
  return until(
    async () => (await cases(server)).filter((item) => item.status === "awaiting"),
    (items) => items.length === count,
  );
}

async function answer(server: TestServer, ref: string, answer: Record<string, unknown>): Promise<void> {
  const response = await server.request(`/jobs/job-1/cases/${ref}/update`, { json: { answer } });
  expect(response.status, await response.clone().text()).toBe(200);
}

describe("the reply desk", () => {
  it("drafts without a key, and sends what a person approves", async () => {
    await using server = await serve(replyDesk);

    await start(server, "reply-desk", {});
    await openQuestions(server, 2);
    await answer(server, "mail-1", { send: true });
    await answer(server, "mail-2", { send: false });

    expect(await end(server)).toMatchObject({ status: "completed", total_cost: 0 });
    expect((await cases(server)).map((item) => [item.name, item.final_delivery])).toEqual([
      ["Where is order 12?", { reply: 'Thank you for writing. We are looking into "Where is order 12?"' }],
      ["Please refund order 34.", { reply: null }],
    ]);
  });

  it("asks a real model if there is a key, once, even if the service is restarted before the answer", async () => {
    const model = await listenAsModel(
      ({ messages }) => `Dear customer: ${messages[0]!.content.split("\n").at(-1)}`,
    );
    Object.assign(process.env, { LLM_URL: model.url, LLM_KEY: "key-of-this-test" });
    try {
      const options = { agents: [replyDesk], dataDir: folder, store: undefined };
      await using first = await testServer(options);
      await start(first, "reply-desk", { mails: ["Is the shop open?"] });
      const [asked] = await openQuestions(first, 1);
      await first.service.close();

      await using second = await testServer(options);
      await openQuestions(second, 1);
      await answer(second, "mail-1", { send: true });

      expect(asked!.question!.question).toBe("Send this? Dear customer: Is the shop open?");
      expect(await end(second)).toMatchObject({ status: "completed" });
      expect((await cases(second))[0]!.final_delivery).toEqual({ reply: "Dear customer: Is the shop open?" });
      expect(model.requests()).toEqual(["Bearer key-of-this-test"]);
    } finally {
      delete process.env.LLM_URL;
      delete process.env.LLM_KEY;
      model.server.close();
    }
  });
});

describe("the assistant", () => {
  const drafts = join(tmpdir(), "assistant-drafts", "job-1");
  const chat = (server: TestServer) =>
    server.request("/agents/assistant/chat", { json: { params: { message: "Rye or wheat?" } } });

  it("streams its answer, word by word", async () => {
    await using server = await serve(assistant);

    const response = await chat(server);
    const chunks: string[] = [];
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) chunks.push(chunk);

    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const events = chunks.join("").trim().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    const words = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)).choices[0].delta.content);
    expect(words.length).toBeGreaterThan(4);
    expect(words.join("")).toBe("(stand-in) You wrote: Rye or wheat?");
  });

  it("forwards the stream of a real model", async () => {
    const model = await listenAsModel(({ stream, messages }) => `${stream} ${messages[0]!.content}`);
    Object.assign(process.env, { LLM_URL: model.url, LLM_KEY: "key-of-this-test" });
    try {
      await using server = await serve(assistant);

      expect(await (await chat(server)).text()).toContain("true Rye or wheat?");
    } finally {
      delete process.env.LLM_URL;
      delete process.env.LLM_KEY;
      model.server.close();
    }
  });

  it("refuses a message that its fields do not allow", async () => {
    await using server = await serve(assistant);

    const response = await server.request("/agents/assistant/chat", { json: { params: {} } });

    expect(response.status).toBe(422);
    expect(await response.text()).toContain("message");
  });

  it("notes who decided what, and reports its progress", async () => {
    await using server = await serve(assistant);
    await start(server, "assistant", { topics: ["Rye"] });
    await openQuestions(server, 1);

    const status = await server.request("/agents/assistant/status", {
      json: { params: { job_id: "job-1" } },
    });
    await answer(server, "rye", { verdict: "print" });
    const job = await end(server);

    expect(await status.json()).toMatchObject({ message: "Chapters started: 1" });
    expect(job).toMatchObject({ status: "completed", result: { message: "Chapters done: 1" } });
    expect(server.logs.join("\n")).toMatch(/a person has decided.*print/);
    await rm(drafts, { recursive: true });
  });

  it("removes its drafts when it is stopped", async () => {
    await using server = await serve(assistant);
    await start(server, "assistant", {});
    await openQuestions(server, 1);
    const before = existsSync(join(drafts, "rye.txt"));

    await server.request("/agents/assistant/stop", { json: { job_context: { job_id: "job-1" } } });
    const job = await end(server);

    expect(job.status).toBe("cancelled");
    await expect.poll(() => existsSync(drafts)).toBe(false);
    expect(before).toBe(true);
  });

  it("counts words", async () => {
    await using server = await serve(assistant);

    const response = await server.request("/agents/assistant/custom/count_words", {
      json: { job_fields: { text: "rye and wheat" } },
    });

    expect(await response.json()).toMatchObject({ payload: { words: 3 } });
  });
});

describe("the contract review", () => {
  const contractOf = (text: string) => ({
    name: "a.pdf",
    data: Buffer.from(text, "latin1").toString("base64"),
  });
  async function download(server: TestServer, { sha256 }: { sha256: string }): Promise<Buffer> {
    return Buffer.from(await (await server.request(`/jobs/job-1/files/${sha256}`)).arrayBuffer());
  }
  async function review(server: TestServer) {
    await start(server, "contract-review", {});
    for (const { id } of await openQuestions(server, 4))
      await answer(server, id, { verdict: id === "clause-6" ? "reject" : "accept", note: `note of ${id}` });
    const { result } = (await end(server)) as unknown as {
      result: Record<"report" | "signature" | "key", { sha256: string }>;
    };
    const [report, signature, key] = await Promise.all(
      [result.report, result.signature, result.key].map((one) => download(server, one)),
    );
    return { report: report!, signature: signature!, key: key!.toString() };
  }

  it("asks about the unusual clauses of a PDF, each beside its page", async () => {
    await using server = await serve(contractReview);

    await start(server, "contract-review", {});
    const asked = await openQuestions(server, 4);

    const pages = asked.map(({ name, question }) => [name, question?.files?.map(({ page }) => page)]);
    expect(pages.sort()).toEqual([
      ["2. Fees", [1]],
      ["3. Term", [2]],
      ["6. Liability", [3]],
      ["8. Governing law", [3]],
    ]);
    const inbox = await server.request("/admin/inbox?question=clause-6", {
      headers: { accept: "text/html" },
    });
    expect(await inbox.text()).toMatch(/<iframe src="[^"]+inline=true#navpanes=0&page=3"/);
  });

  it("gives out a report of every decision, whose signature holds until a byte changes", async () => {
    await using server = await serve(contractReview);

    const { report, signature, key } = await review(server);

    expect(report.toString()).toContain("## 6. Liability: reject");
    expect(report.toString()).toContain("Note: note of clause-6");
    const hash = createHash("sha256").update(readFileSync("examples/contract-review/contract.pdf"));
    expect(report.toString()).toContain(hash.digest("hex"));
    expect(verify(null, report, key, signature)).toBe(true);
    report[report.length - 2]! ^= 1;
    expect(verify(null, report, key, signature)).toBe(false);
  });

  it("signs with the key that it is given, and refuses one of another kind", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    process.env.SIGNING_KEY = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    try {
      await using server = await serve(contractReview);
      const { report, signature, key } = await review(server);
      expect(key).toBe(publicKey.export({ type: "spki", format: "pem" }).toString());
      expect(verify(null, report, publicKey, signature)).toBe(true);
    } finally {
      delete process.env.SIGNING_KEY;
    }
    const other = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
    expect(() => signReport("", other.export({ type: "pkcs8", format: "pem" }).toString())).toThrow(
      "Ed25519",
    );
  });

  it("fails for a PDF without text, and refuses what is no PDF", async () => {
    await using server = await serve(contractReview);
    const empty = readFileSync("examples/contract-review/contract.pdf", "latin1").replace(/ Tj/g, "   ");

    await start(server, "contract-review", { contract: contractOf(empty) });

    expect(await end(server)).toMatchObject({
      status: "failed",
      error: expect.stringContaining("is it a scan?"),
    });
    const given = { job_fields: { contract: contractOf("no PDF") } };
    expect((await server.request("/agents/contract-review/jobs", { json: given })).status).toBe(422);
  });

  it("has the sample that its script writes", async () => {
    const source = "examples/contract-review";
    for (const name of ["make-contract.ts", "contract.txt"]) await cp(join(source, name), join(folder, name));
    execFileSync(process.execPath, ["node_modules/jiti/lib/jiti-cli.mjs", join(folder, "make-contract.ts")]);

    expect(readFileSync(join(folder, "contract.pdf"))).toEqual(readFileSync(join(source, "contract.pdf")));
  });
});

describe("the invoice audit", () => {
  it("finds every planted defect and holds undecided invoices", async () => {
    await using server = await serve(invoiceAudit);

    await start(server, "invoice-audit", { deadline: "1s", report: folder });
    const job = await end(server);

    expect(job).toMatchObject({
      status: "completed",
      result: { pay: { count: 49 }, reject: { count: 7 }, hold: { count: 4 } },
    });
    const { report, unreadable } = job.result as { report: string; unreadable: { source: string }[] };
    expect(unreadable.map((one) => one.source)).toEqual(["2026-q3.csv:12", "nl26-10449.json"]);
    const decided = (await cases(server)).filter((item) => item.final_delivery?.decision !== "pay");
    expect(Object.fromEntries(decided.map((item) => [item.id, item.final_delivery?.decision]))).toEqual({
      "lh-2026-405": "reject",
      "kk-88214-copy-1": "reject",
      df60946: "reject",
      "nl26-10380": "reject",
      "am-331035": "reject",
      "kk-88235-copy-1": "reject",
      "ok-2256": "reject",
      "sw-77121098": "hold",
      "pw-5522-a": "hold",
      "ct-26-076": "hold",
      "bs-2026-1427": "hold",
    });
    const text = await readFile(report, "utf8");
    expect(text).toContain("# Audit of 60 invoices");
    expect(text).toContain("28,546.65 EUR is 10.8 times the usual 2,650.18 EUR");
    expect(text).toContain("nobody answered in time");
    expect(job.total_cost).toBeCloseTo(60 * 4 * 0.002);
  });

  it("applies a person's answers", async () => {
    await using server = await serve(invoiceAudit);
    await start(server, "invoice-audit", { deadline: "1h", report: folder });
    const asked = await until(
      async () => (await cases(server)).filter((item) => item.status === "awaiting"),
      (items) => items.length === 4,
    );

    for (const item of asked) {
      const answer = { approved: item.id === "sw-77121098", comment: "checked by phone" };
      await server.request(`/jobs/job-1/cases/${item.id}/update`, { json: { answer } });
    }

    expect(await end(server)).toMatchObject({
      status: "completed",
      result: { pay: { count: 50 }, hold: { count: 3 } },
    });
  });
});

describe("the log watch", () => {
  it("groups the day's trouble into incidents, worst first", async () => {
    await using server = await serve(logWatch);

    await start(server, "log-watch", { report: folder });
    const job = await end(server);

    expect(job).toMatchObject({
      status: "completed",
      result: { critical: 3, major: 6, minor: 5, unknown: ["orders.log:61"] },
    });
    const incidents = await cases(server);
    expect(incidents).toHaveLength(14);
    expect(incidents[0]?.final_delivery).toMatchObject({
      severity: "critical",
      count: 34,
      files: ["nginx-error.log"],
    });
    const scan = incidents.find((item) => item.name.startsWith("203.0.113.66"));
    expect(scan?.final_delivery).toMatchObject({ severity: "minor", count: 12 });
    const text = await readFile((job.result as { report: string }).report, "utf8");
    expect(text).toContain("out of memory, the process ends");
    expect(text).toContain("at addItem (/srv/cart/dist/items.js:48:31)");
  });

  it("continues reading where it was in the next round", async () => {
    const line = (second: number) => `2026-10-14 06:00:0${second},000 ERROR [shop] order ${second} is lost\n`;
    await writeFile(join(folder, "shop.log"), line(1) + line(2));
    await using server = await serve(logWatch);
    await start(server, "log-watch", { folder, report: folder, rounds: 2, interval: "1s" });
    await until(
      () => cases(server),
      (items) => items[0]?.updates.length === 2,
    );

    await appendFile(join(folder, "shop.log"), line(3));

    expect((await end(server)).result).toMatchObject({
      message: "Entries: 3; incidents: 1, critical: 0",
    });
    const [incident] = await cases(server);
    expect(incident?.final_delivery).toMatchObject({ title: "[shop] order <n> is lost", count: 3 });
    expect(incident?.updates.filter((update) => update.name === "collect")).toHaveLength(2);
  });
});

describe("the triage with a language model", () => {
  it("fails plainly when no endpoint is configured", async () => {
    await using server = await serve(llmTriage);

    await start(server, "llm-triage", {});

    expect(await end(server)).toMatchObject({
      status: "failed",
      error: expect.stringContaining("No model is configured. Set LLM_URL"),
    });
  });

  it("retries after a bad answer, counts the cost of tokens, and asks if the model is not sure", async () => {
    const model = await listenAsModel(({ messages }, count) => {
      const confidence = messages.at(-1)!.content.includes("T-1") ? 0.9 : 0.4;
      if (count === 1) return "As a model I cannot";
      return JSON.stringify({ team: "orders", urgency: "later", confidence, reply: "Thank you" });
    });
    process.env.LLM_URL = model.url;
    try {
      const tickets = ["T-1", "T-2"].map((id) =>
        JSON.stringify({ id, from: "a@b.example", subject: id, body: "Hello" }),
      );
      await writeFile(join(folder, "tickets.jsonl"), tickets.join("\n"));
      await using server = await serve(llmTriage);
      await start(server, "llm-triage", { file: join(folder, "tickets.jsonl") });
      const [asked] = await until(
        async () => (await cases(server)).filter((item) => item.status === "awaiting"),
        (items) => items.length === 1,
      );

      await server.request(`/jobs/job-1/cases/${asked!.id}/update`, {
        json: { answer: { team: "billing" } },
      });

      expect(await end(server)).toMatchObject({
        status: "completed",
        result: { teams: { orders: 1, billing: 1 } },
      });
      expect(model.requests()).toHaveLength(3);
      expect((await cases(server))[0]?.total_cost).toBeCloseTo(0.001);
    } finally {
      delete process.env.LLM_URL;
      model.server.close();
    }
  });
});

interface ChatRequest {
  readonly messages: readonly { readonly content: string }[];
  readonly stream?: boolean;
}

/** An endpoint that speaks the chat completions format; `requests` are the keys that it was sent. */
async function listenAsModel(
  reply: (request: ChatRequest, count: number) => string,
): Promise<{ server: Server; url: string; requests: () => readonly (string | undefined)[] }> {
  const requests: (string | undefined)[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push(request.headers.authorization);
    const content = reply(JSON.parse(body) as ChatRequest, requests.length);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message: { content } }], usage: { total_tokens: 500 } }));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: () => requests,
  };
}
