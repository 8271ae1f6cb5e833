import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { defineAgent, defineChat, NonRetryableError } from "agent-control-service";
import { client, type TokenScope } from "agent-control-service/client";
import { useJob } from "agent-control-service/client/react";
import { type TestServer, testServer } from "agent-control-service/testing";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import { requirement } from "../_require.ts";
import { launch } from "../admin/_browser.ts";
import { payer } from "./_agents.ts";
import { bundle } from "./_bundle.ts";

/** Writes a word at a time, and ends when the test says so. */
let release = (): void => {};
const writer = defineAgent({
  name: "Writer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [],
      run: ({ job }) =>
        job.step("draft", async ({ emit }) => {
          emit("Dear ");
          emit("Ada.");
          await new Promise<void>((resolve) => {
            release = resolve;
          });
          return "Dear Ada, bye";
        }),
    },
  },
});

/** Answers a message a word at a time. */
const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  async reply({ message, turn }) {
    if (message === "pay") {
      const fields = v.object({ approved: v.boolean() });
      const { approved } = await turn.ask("pay", { question: "Pay it?", fields });
      return approved ? "Paid." : "Not paid.";
    }
    return turn.step("answer", async ({ emit }) => {
      if (message === "break") throw new NonRetryableError("The model is away");
      emit("You said ");
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      return `You said ${message}.`;
    });
  },
});

const CHAT = `
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { client } from "agent-control-service/client";
import { useChat } from "agent-control-service/client/react";

const { url, token, id } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const service = client(url, token);

function Chat() {
  const { messages, isAnswering, send } = useChat(service.job(id));
  (window.seen ??= []).push(isAnswering);
  return h("main", null,
    h("p", { id: "messages" }, messages.map(({ role, content, status, error }) => [role, error ?? content, status].join(": ")).join(" | ")),
    h("p", { id: "answering" }, String(isAnswering)),
    h("button", { onClick: () => send("sure, go ahead") }, "Agree"),
    h("button", { onClick: () => send("only half of it") }, "Haggle"),
    h("button", { onClick: () => send("and bye") }, "Send"));
}
createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
`;

const PAGE = `
import { createElement as h, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { client } from "agent-control-service/client";
import { useJob } from "agent-control-service/client/react";

const { url, token, id } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const service = client(url, token);

function Job() {
  const { status, questions, output, entries, result, error, answer, stop } = useJob(service.job(id));
  (window.seen ??= []).push([status, result]);
  return h("main", null,
    h("p", { id: "status" }, status),
    h("p", { id: "entries" }, entries.length),
    h("p", { id: "live" }, output.map(({ text }) => text).join("|")),
    h("p", { id: "result" }, JSON.stringify(result)),
    h("p", { id: "error" }, error?.code),
    questions.map((item) => h("button", { key: item.id, onClick: () => answer(item.id, { approved: true }) },
      item.question.question)),
    h("button", { id: "stop", onClick: () => stop().catch(({ code }) => { document.title = code; }) }, "Stop"));
}
createRoot(document.body.appendChild(document.createElement("div"))).render(h(StrictMode, null, h(Job)));
`;

const chromium = requirement("chromium");

chromium.describe("useJob in a page of another origin", () => {
  const close: (() => unknown)[] = [];
  let server: TestServer;
  let browser: Awaited<ReturnType<typeof launch>>;
  let origin: string;

  beforeAll(async () => {
    const scripts: Record<string, string> = {
      "/job.js": await bundle(PAGE, { mode: "development" }),
      "/chat.js": await bundle(CHAT, { mode: "development" }),
    };
    const pages = createServer((request, response) => {
      const { pathname } = new URL(request.url!, "http://page");
      const code = scripts[pathname];
      response.setHeader("content-type", code ? "text/javascript" : "text/html");
      response.end(code ?? `<!doctype html><body><script type="module" src="${pathname}.js"></script>`);
    });
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    close.push(() => pages.close());
    origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
    server = await testServer({ agents: [payer, writer, talker], allowedOrigins: [origin] });
    close.push(() => server[Symbol.asyncDispose]());
    browser = await launch();
    close.push(() => browser.close());
  });
  afterAll(async () => {
    for (const one of close.reverse()) await one();
  });

  async function open(slug: string, fields: Record<string, unknown>, scopes: TokenScope[], path = "/job") {
    const job = await client(server.url, server.key).start(slug, fields);
    const { token } = await job.token({ scopes, name: "Ada" });
    const page = await browser.newPage();
    await page.goto(`${origin}${path}#${new URLSearchParams({ url: server.url, token, id: job.id })}`);
    return { page, job, text: (id: string) => page.locator(`#${id}`).textContent() };
  }

  it("shows a question, answers it, and shows the result", async () => {
    const { page, job, text } = await open("payer", { amount: 9 }, ["status", "answer"]);

    await page.getByRole("button", { name: "Pay 9?" }).click();

    await expect.poll(() => text("result")).toBe('"paid"');
    expect(await text("status")).toBe("completed");
    expect(await page.getByRole("button", { name: "Pay 9?" }).count()).toBe(0);
    const seen = await page.evaluate<[string, unknown][]>("window.seen");
    expect(seen.filter(([status, result]) => status === "completed" && result === undefined)).toEqual([]);
    let entries = 0;
    for await (const { type } of job.stream()) if (type === "entry") entries++;
    expect(await text("entries")).toBe(String(entries));
  });

  it("shows what a step emits until the step has ended", async () => {
    const { text } = await open("writer", {}, ["status"]);

    await expect.poll(() => text("live")).toBe("Dear Ada.");
    release();

    await expect.poll(() => text("result")).toBe('"Dear Ada, bye"');
    await expect.poll(() => text("live")).toBe("");
  });

  it("does not let a page do what its token does not allow", async () => {
    const { page, job, text } = await open("payer", { amount: 8 }, ["status"]);
    await expect.poll(() => text("status")).toBe("awaiting");

    await page.locator("#stop").click();

    await expect.poll(() => page.title()).toBe("forbidden");
    expect(await page.getByRole("button").count()).toBe(2);
    expect((await job.read()).status).toBe("awaiting");
  });

  it("shows the messages of a thread, and an answer while it is written", async () => {
    const scopes: TokenScope[] = ["status", "message"];
    const { page, text } = await open("talker", { message: "Hello" }, scopes, "/chat");
    await expect.poll(() => text("messages")).toBe("user: Hello: done | assistant: You said : writing");
    expect(await text("answering")).toBe("true");

    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(() => text("messages")).toContain("| user: and bye: sent");
    release();

    const first = "user: Hello: done | assistant: You said Hello.: done";
    await expect
      .poll(() => text("messages"))
      .toBe(`${first} | user: and bye: done | assistant: You said : writing`);
    release();
    await expect
      .poll(() => text("messages"))
      .toBe(`${first} | user: and bye: done | assistant: You said and bye.: done`);
    await expect.poll(() => text("answering")).toBe("false");
    const seen = await page.evaluate<boolean[]>("window.seen");
    expect(seen.filter((one, at) => one !== seen[at - 1])).toEqual([false, true, false]);
  });

  it("shows why an answer failed, and the thread takes the next message", async () => {
    const scopes: TokenScope[] = ["status", "message"];
    const { page, text } = await open("talker", { message: "break" }, scopes, "/chat");
    const failed = "user: break: done | assistant: The model is away: failed";
    await expect.poll(() => text("messages")).toBe(failed);

    await page.getByRole("button", { name: "Send" }).click();
    await expect.poll(() => text("messages")).toContain("assistant: You said : writing");
    release();

    await expect
      .poll(() => text("messages"))
      .toBe(`${failed} | user: and bye: done | assistant: You said and bye.: done`);
  });

  it("answers the question that it shows with a message, and shows why one was not accepted", async () => {
    const scopes: TokenScope[] = ["record", "message", "answer"];
    const { page, text } = await open("talker", { message: "pay" }, scopes, "/chat");
    await expect.poll(() => text("messages")).toBe("user: pay: done | assistant: : writing");

    await page.getByRole("button", { name: "Haggle" }).click();
    const haggled =
      "user: only half of it: done | assistant: The reply was not understood as an answer.: done";
    await expect.poll(() => text("messages")).toBe(`user: pay: done | ${haggled} | assistant: : writing`);
    await page.getByRole("button", { name: "Agree" }).click();

    await expect
      .poll(() => text("messages"))
      .toBe(`user: pay: done | ${haggled} | user: sure, go ahead: done | assistant: Paid.: done`);
    await expect.poll(() => text("answering")).toBe("false");
  });

  it("shows the end of a job, and of an answer", async () => {
    const ended = await open("talker", { message: "Hello", once: true }, ["status", "message"], "/chat");
    await expect.poll(() => ended.text("answering")).toBe("true");
    release();
    await expect.poll(() => ended.text("answering")).toBe("false");
    const { job, text } = await open("payer", { amount: 6 }, ["status"]);
    await job.stop();

    await expect.poll(() => text("status")).toBe("cancelled");
  });

  it("reports a token that has become invalid", async () => {
    const { page, text } = await open("payer", { amount: 7 }, ["status"]);
    await page.goto(page.url().replace(/token=svct\./, "token=svct.x"));
    await page.reload();

    await expect.poll(() => text("error")).toBe("unauthorized");
  });
});

function Show({ id }: { id?: string }) {
  const { status, result, entries } = useJob(id === undefined ? null : client("http://127.0.0.1:1").job(id));
  return createElement("p", null, `${status} ${entries.length} ${String(result)}`);
}

it("useJob renders on a server as a job that is loading, with or without a job", () => {
  expect(renderToString(createElement(Show, { id: "job-1" }))).toBe("<p>loading 0 undefined</p>");
  expect(renderToString(createElement(Show, {}))).toBe("<p>loading 0 undefined</p>");
});
