import { hash } from "node:crypto";
import { Message } from "@a2a-js/sdk";
import { HttpAgent } from "@ag-ui/client";
import { defineAgent, defineChat, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { FILES, JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI, { toFile } from "openai";
import * as v from "valibot";
import { beforeEach, describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { mcp } from "../../src/mcp.ts";
import { connect, send } from "../a2a/_client.ts";
import { uiChat } from "../http/_ui-chat.ts";
import { connectPlain } from "../mcp/_client.ts";

const PDF = Buffer.from("%PDF-1.7\nthe contract");
const PNG = Buffer.from("\x89PNG\r\n\x1a\na picture", "latin1");
const dataUrl = (bytes: Buffer, type: string) => `data:${type};base64,${bytes.toString("base64")}`;

let turns = 0;
const reader = defineChat({
  name: "Reader",
  version: "1.0.0",
  async reply({ message, files, messages, turn, job }) {
    turns++;
    if (message === "ask")
      return String(
        (await turn.ask("sure", { question: "Sure?", fields: v.object({ yes: v.boolean() }) })).yes,
      );
    const known = messages.flatMap((one) => one.files ?? []).map(({ name }) => name);
    if (files.length === 0) return `no file; of the thread: ${known.join(", ")}`;
    const texts = await turn.step("read", () =>
      Promise.all(files.map(async (one) => (await job.open(one).text()).split("\n").at(-1))),
    );
    const report = await turn.step("report", ({ file }) => file("report ü.txt", `report on ${texts}`));
    return {
      text: `${message}: ${files.map(({ name, type }) => `${name} ${type}`)}: ${texts}`,
      files: [report],
    };
  },
});
const signer = defineAgent({
  name: "Signer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({
        contract: file({ accept: ["application/pdf"] }),
        more: v.optional(v.array(file())),
      }),
      run: async ({ job, fields }) => {
        const text = await job.step("read", () => job.open(fields.contract).text());
        const item = await job.openCase({ id: job.id, name: "Contract" });
        const { stamp } = await item.ask("stamp", {
          question: "Stamp?",
          fields: v.object({ stamp: file() }),
        });
        const signed = await item.step("sign", ({ file }) => file("signed.txt", `${text} signed`));
        await item.close({ signed });
        return { signed, stamp: stamp.name, more: fields.more?.map(({ name }) => name) ?? [] };
      },
    },
  },
});
const plain = defineAgent({
  name: "Plain",
  version: "1.0.0",
  methods: { job_start: { fields: v.object({ text: v.string() }), run: ({ fields }) => fields.text } },
});

const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
const keys = ["one", "two"].map((name) => ({
  ...{ name, role: "starter" as const, sha256: hash("sha256", keyOf(name), "hex") },
}));
let server: TestServer;
beforeEach(async () => {
  turns = 0;
  server = await testServer({
    ...{ agents: [reader, signer, plain], plugins: [a2a(), agUi(), mcp()], access: { keys } },
  });
  return () => server[Symbol.asyncDispose]();
});

const get = async (url: string) => {
  const response = await fetch(url, { headers: { "x-api-key": server.key } });
  expect(response.status).toBe(200);
  return response.text();
};
const openAi = (apiKey = server.key) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
/** The files of a response's text. */
const annotationsOf = ({ output }: OpenAI.Responses.Response) =>
  output.flatMap((item) =>
    item.type === "message"
      ? item.content.flatMap((part) => (part.type === "output_text" ? part.annotations : []))
      : [],
  ) as unknown as { type: string; file_id: string; filename: string; index: number }[];

interface Heard {
  readonly text: string;
  /** The content of the file that came back. */
  readonly file: string;
}

/** Sends a text with a PDF, in a thread, under an id. */
type Say = (thread: string, content: string, id: string) => Promise<Heard>;

const CLIENTS: Readonly<Record<string, Say>> = {
  OpenAI: async (thread_id, text, key) => {
    const file_data = dataUrl(PDF, "application/pdf");
    const answer = await openAi().chat.completions.create(
      {
        model: "reader",
        metadata: { thread_id },
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text },
              { type: "file", file: { file_data, filename: "contract.pdf" } },
            ],
          },
        ],
      },
      { headers: { "idempotency-key": key } },
    );
    const { content, files } = answer.choices[0]!.message as unknown as {
      content: string;
      files: { id: string; filename: string }[];
    };
    expect(files).toMatchObject([{ filename: "report ü.txt", mime_type: "text/plain" }]);
    return { text: content, file: await (await openAi().files.content(files[0]!.id)).text() };
  },
  "OpenAI's responses": async (conversation, text, key) => {
    const file_data = dataUrl(PDF, "application/pdf");
    const content = [
      { type: "input_text" as const, text },
      { type: "input_file" as const, file_data, filename: "contract.pdf" },
    ];
    const response = await openAi().responses.create(
      { model: "reader", conversation, input: [{ role: "user", content }] },
      { headers: { "idempotency-key": key } },
    );
    const [sent] = annotationsOf(response);
    expect(sent).toMatchObject({ type: "file_path", filename: "report ü.txt" });
    return {
      text: response.output_text,
      file: await (await openAi().files.content(sent!.file_id)).text(),
    };
  },
  "AI SDK": async (id, text, messageId) => {
    const window = uiChat(server, { agent: "reader", id });
    await window.chat.sendMessage({
      id: messageId,
      parts: [
        { type: "text", text },
        {
          type: "file",
          mediaType: "application/pdf",
          filename: "contract.pdf",
          url: dataUrl(PDF, "application/pdf"),
        },
      ],
    });
    if (window.chat.error) throw window.chat.error;
    const sent = window.chat.lastMessage!.parts.find((part) => part.type === "file")!;
    expect(sent.mediaType).toBe("text/plain");
    return { text: window.lastText(), file: await get(sent.url) };
  },
  "AG-UI": async (threadId, text, id) => {
    const url = `${server.url}/ag-ui/reader`;
    const agent = new HttpAgent({ url, threadId, headers: { "X-API-Key": server.key } });
    const source = { type: "data", value: PDF.toString("base64"), mimeType: "application/pdf" } as const;
    const document = { type: "document", source, metadata: { filename: "contract.pdf" } } as const;
    agent.addMessage({ id, role: "user", content: [{ type: "text", text }, document] });
    let result = "";
    let at = "";
    await agent.runAgent(
      {},
      {
        onCustomEvent: ({ event }) => {
          at = (event.value as { url: string }).url;
        },
        onRunFinishedEvent: ({ event }) => {
          result = String(event.result);
        },
      },
    );
    return { text: result, file: await get(at) };
  },
  A2A: async (contextId, text, messageId) => {
    const client = await connect(server, "JSONRPC", "reader");
    const raw = PDF.toString("base64");
    const parts = [{ text }, { raw, mediaType: "application/pdf", filename: "contract.pdf" }];
    const message = Message.fromJSON({ messageId, contextId, role: "ROLE_USER", parts });
    const [result] = (await send(client, message)).artifacts;
    const [said, sent] = result!.parts;
    expect([sent!.content?.$case, sent!.mediaType, sent!.filename]).toEqual([
      ...["url", "text/plain", "report ü.txt"],
    ]);
    return { text: String(said!.content?.value), file: await get(String(sent!.content?.value)) };
  },
  MCP: async (thread, message, id) => {
    const client = await connectPlain(server);
    const result = await client.callTool({
      name: "reader",
      arguments: { message, thread, files: [{ name: "contract.pdf", data: PDF.toString("base64") }] },
      _meta: { "agent-control-service/idempotency-key": id },
    } as never);
    const { job_id, cases } = result.structuredContent as {
      job_id: string;
      cases: { delivery: { answer: string; files: { sha256: string }[] } }[];
    };
    const { answer, files } = cases[0]!.delivery;
    return { text: answer, file: await get(`${server.url}/jobs/${job_id}/files/${files[0]!.sha256}`) };
  },
};

describe.each(Object.entries(CLIENTS))("the official client of %s", (_, say) => {
  it("sends a PDF to a chat agent and gets a file back, in the first message and in the next one", async () => {
    const heard = (text: string) => ({
      text: `${text}: contract.pdf application/pdf: the contract`,
      file: "report on the contract",
    });
    expect(await say("thread-1", "first", "m1")).toEqual(heard("first"));
    expect(await say("thread-1", "second", "m2")).toEqual(heard("second"));
    expect(turns).toBe(2);
    const [job] = (await server.service.get(JOBS).list({})).items;
    const listed = await server.service.get(FILES).list(job!.id);
    expect(listed.map(({ name: called, origin }) => `${called} ${origin}`)).toEqual([
      ...["contract.pdf field", "report ü.txt step", "report ü.txt step"],
    ]);
    // What came with a message is no upload that waits for a day.
    expect(await server.service.get(STORE).table("FileUpload").ids()).toEqual([]);
  });

  it("a message that is sent again has one effect, and gets the same answer", async () => {
    const first = await say("thread-1", "first", "m1");
    const next = await say("thread-1", "next", "m2");
    expect(await say("thread-1", "first", "m1")).toEqual(first);
    expect(await say("thread-1", "next", "m2")).toEqual(next);
    expect(turns).toBe(2);
  });
});

it("the typed client sends uploads with a message, once, and gets a file back", async () => {
  const service = client(server.url, server.key);
  const job = await service.start("reader", {});
  const contract = await service.upload(new Blob([PDF], { type: "application/pdf" }), {
    name: "contract.pdf",
  });
  const small = { name: "note.txt", data: Buffer.from("a note").toString("base64") };
  const post = (body: object) =>
    server.request(`/jobs/${job.id}/messages`, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
    });
  const delivery = async (count: number) => {
    await expect.poll(async () => (await job.cases()).filter((one) => one.final_delivery).length).toBe(count);
    return (await job.cases()).find(({ ref }) => ref === `turn-${count}`)!.final_delivery as {
      answer: string;
      files: { sha256: string }[];
    };
  };

  await job.send("first", { id: "m1", files: [contract] });
  const first = await delivery(1);
  await job.send("first", { id: "m1", files: [contract] });
  const other = await job.send("first", { id: "m1" }).catch((error: Error) => error);
  const second = await post({ content: "second", files: [small] });
  const bad = await Promise.all(
    [{ upload: "unknown" }, { data: "no base64!" }, {}].map((one) =>
      post({ content: "third", files: [one] }),
    ),
  );

  expect(first.answer).toBe("first: contract.pdf application/pdf: the contract");
  expect(await (await job.download(first.files[0]!)).text()).toBe("report on the contract");
  expect(other).toMatchObject({ status: 409 });
  expect(second.status).toBe(202);
  expect((await delivery(2)).answer).toBe("second: note.txt text/plain: a note");
  expect(bad.map(({ status }) => status)).toEqual([404, 422, 422]);
  expect(turns).toBe(2);
  await job.send("ask");
  await expect.poll(async () => (await job.cases()).some(({ question }) => question)).toBe(true);
  const { question, id: case_id } = (await job.cases()).find((one) => one.question)!;
  const asked = { case_id, id: question!.id, asked_at: question!.asked_at };
  const answer = await post({ content: "yes", files: [small], question: asked });
  expect(await answer.json()).toMatchObject({ answer: { accepted: false } });
});

it("a client for OpenAI that keeps its own conversation sends pictures and uploads, each with its message", async () => {
  const client = openAi();
  const uploaded = await client.files.create({
    file: await toFile(PDF, "terms.pdf", { type: "application/pdf" }),
    purpose: "user_data",
  });
  expect(uploaded).toMatchObject({ object: "file", bytes: PDF.length, filename: "terms.pdf" });
  expect(await client.files.retrieve(uploaded.id)).toMatchObject({ id: uploaded.id, filename: "terms.pdf" });
  expect(await (await client.files.content(uploaded.id)).text()).toBe(PDF.toString());
  const picture = { type: "image_url", image_url: { url: dataUrl(PNG, "image/png") } } as const;
  const answer = await client.chat.completions.create({
    model: "reader",
    stream: true,
    messages: [
      { role: "user", content: [{ type: "text", text: "look" }, picture] },
      { role: "assistant", content: "I see" },
      {
        role: "user",
        content: [
          { type: "text", text: "and this" },
          { type: "file", file: { file_id: uploaded.id } },
        ],
      },
    ],
  });
  let text = "";
  let files: { id: string }[] = [];
  for await (const chunk of answer) {
    const delta = chunk.choices[0]?.delta as { content?: string; files?: { id: string }[] } | undefined;
    text += delta?.content ?? "";
    files = delta?.files ?? files;
  }
  expect(text).toBe("and this: terms.pdf application/pdf: the contract");
  expect(await (await client.files.content(files[0]!.id)).text()).toBe("report on the contract");
  const said = await client.chat.completions.create({
    model: "reader",
    messages: [
      { role: "user", content: [picture] },
      { role: "assistant", content: "I see" },
      { role: "user", content: "what was it?" },
    ],
  });
  expect(said.choices[0]!.message.content).toBe("no file; of the thread: file");
  expect(await client.files.delete(uploaded.id)).toEqual({ id: uploaded.id, object: "file", deleted: true });
  await expect(client.files.retrieve(uploaded.id)).rejects.toMatchObject({ status: 404 });
});

it("a response that continues another one has its files, and takes one of an answer by its id", async () => {
  const client = openAi();
  const image_url = dataUrl(PNG, "image/png");
  const first = await client.responses.create({
    model: "reader",
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url, detail: "auto" },
        ],
      },
    ],
  });
  const next = { model: "reader", previous_response_id: first.id };
  const known = await client.responses.create({ ...next, input: "what was it?" });
  expect(known.output_text).toBe("no file; of the thread: file, report ü.txt");
  const further = { model: "reader", previous_response_id: known.id };
  expect((await client.responses.create({ ...further, input: "again?" })).output_text).toBe(
    "no file; of the thread: file, report ü.txt",
  );
  const { file_id } = annotationsOf(first)[0]!;
  const given = { type: "input_file" as const, file_id };
  const stream = client.responses.stream({ ...next, input: [{ role: "user", content: [given] }] });
  const annotated: unknown[] = [];
  for await (const event of stream)
    if (event.type === "response.output_text.annotation.added") annotated.push(event.annotation);
  const response = await stream.finalResponse();
  expect(response.output_text).toContain("report ü.txt text/plain");
  expect(annotated).toEqual(annotationsOf(response));
  const named = await client.chat.completions.create({
    model: "reader",
    messages: [
      { role: "user", content: [{ type: "file", file: { file_id } }] },
      { role: "assistant", content: "I see" },
      { role: "user", content: "what was it?" },
    ],
  });
  expect(named.choices[0]!.message.content).toBe("no file; of the thread: report ü.txt");
});

it("a starter key sees and sends only its own files, with each client", async () => {
  const [one, two] = [openAi(keyOf("one")), openAi(keyOf("two"))];
  const mine = await one.files.create({ file: await toFile(PDF, "mine.pdf"), purpose: "user_data" });
  const say = (client: OpenAI, file_id: string) =>
    client.chat.completions.create({
      model: "reader",
      messages: [{ role: "user", content: [{ type: "file", file: { file_id } }] }],
    });
  const respond = (client: OpenAI, file_id: string, more: object = {}) =>
    client.responses.create({
      ...{ model: "reader", input: [{ role: "user", content: [{ type: "input_file", file_id }] }] },
      ...more,
    });
  const own = await respond(one, mine.id);
  const [answered] = annotationsOf(own);
  const before = turns;
  for (const id of [mine.id, answered!.file_id])
    for (const attempt of [
      () => two.files.retrieve(id),
      () => two.files.content(id),
      () => two.files.delete(id),
      () => say(two, id),
      () => respond(two, id),
      () => respond(two, id, { conversation: "thread-of-two" }),
    ])
      await expect(attempt()).rejects.toMatchObject({ status: 404 });
  await expect(respond(two, "", { previous_response_id: own.id, input: "x" })).rejects.toMatchObject({
    status: 404,
  });
  const headers = { "x-api-key": keyOf("two"), "content-type": "application/json" };
  const { thread_id } = own as unknown as { thread_id: string };
  const upload = mine.id.slice("file-".length);
  const value = { name: "mine.pdf", type: "application/pdf", size: PDF.length, sha256: hash("sha256", PDF) };
  const sendJson = async (path: string, json: object) =>
    (await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(json) })).status;
  expect(await sendJson("/agents/reader/jobs", { job_fields: { files: [{ upload }] } })).toBe(404);
  expect(await sendJson("/agents/reader/jobs", { job_fields: { files: [value] } })).toBe(422);
  const document = { type: "document", source: { type: "file", value: upload } };
  const run = { threadId: "t", runId: "r", messages: [{ id: "m", role: "user", content: [document] }] };
  expect(await sendJson("/ag-ui/reader", run)).toBe(404);
  expect((await fetch(`${server.url}/jobs/${thread_id}/files/${value.sha256}`, { headers })).status).toBe(
    404,
  );
  expect(turns).toBe(before);
  // Its owner does all of it.
  expect((await say(one, answered!.file_id)).choices[0]!.message.content).toContain("report ü.txt");
  expect(await (await one.files.content(mine.id)).text()).toBe(PDF.toString());
});

it("contents at URLs are never fetched, and what is no file is refused by each protocol in its form", async () => {
  const url = "http://127.0.0.1:1/contract.pdf";
  const asked = (content: object[]) =>
    openAi().chat.completions.create({ model: "reader", messages: [{ role: "user", content } as never] });
  await expect(asked([{ type: "image_url", image_url: { url } }])).rejects.toMatchObject({ status: 415 });
  await expect(asked([{ type: "image_url", image_url: { url: "data:nothing" } }])).rejects.toMatchObject({
    status: 400,
  });
  const lie = dataUrl(Buffer.from("<html>"), "image/png");
  await expect(asked([{ type: "image_url", image_url: { url: lie } }])).rejects.toMatchObject({
    status: 415,
  });
  await expect(asked([{ type: "file", file: { file_id: "file-nothing" } }])).rejects.toMatchObject({
    status: 404,
  });
  const window = uiChat(server, { agent: "reader", id: "t1" });
  await window.chat.sendMessage({ parts: [{ type: "file", mediaType: "application/pdf", url }] });
  expect(window.chat.error?.message).toContain("is at a URL");
  const client = await connect(server, "JSONRPC", "reader");
  const parts = [{ url, mediaType: "application/pdf" }];
  await expect(send(client, Message.fromJSON({ messageId: "m", role: "ROLE_USER", parts }))).rejects.toThrow(
    /is at a URL/,
  );
  expect(turns).toBe(0);
});

it("files do not answer a question of yes or no, and are not lost without a word", async () => {
  const window = uiChat(server, { agent: "reader", id: "t1" });
  await window.say("ask", "m1");
  const again = uiChat(server, { agent: "reader", id: "t1", messages: [...window.chat.messages] });
  await again.chat.sendMessage({
    id: "m2",
    parts: [
      { type: "text", text: "yes" },
      { type: "file", mediaType: "application/pdf", url: dataUrl(PDF, "application/pdf") },
    ],
  });
  expect(JSON.stringify(again.chat.lastMessage)).toContain("This is answered without files");
});

it("a client of A2A starts a job with a PDF, answers with a picture, and gets a file back", async () => {
  const client = await connect(server, "JSONRPC", "signer");
  const card = (await (await server.request("/a2a/signer/.well-known/agent-card.json")).json()) as {
    defaultInputModes: string[];
  };
  expect(card.defaultInputModes).toContain("*/*");
  const raw = (bytes: Buffer, filename: string, metadata?: object) => ({
    ...{ raw: bytes.toString("base64"), filename, mediaType: "", metadata },
  });
  const message = (messageId: string, parts: object[], taskId = "") =>
    Message.fromJSON({ messageId, taskId, role: "ROLE_USER", parts });
  const parts = [raw(PNG, "more.png", { field: "more" }), raw(PDF, "contract.pdf"), raw(PNG, "other.png")];
  const asked = await send(client, message("m1", parts));
  expect((await send(client, message("m1", parts))).id).toBe(asked.id);
  const done = await send(client, message("m2", [raw(PNG, "stamp.png")], asked.id));
  const [delivery, result] = done.artifacts;
  expect(result!.parts[0]!.content?.value).toMatchObject({
    ...{ stamp: "stamp.png", more: ["more.png", "other.png"] },
  });
  for (const artifact of [delivery!, result!]) {
    const sent = artifact.parts[1]!;
    expect([sent.content?.$case, sent.filename]).toEqual(["url", "signed.txt"]);
    expect(await get(String(sent.content?.value))).toBe(`${PDF} signed`);
  }
  await expect(send(client, message("m3", [raw(PNG, "no.png")]))).rejects.toThrow();
  const other = await connect(server, "JSONRPC", "plain");
  await expect(send(other, message("m4", [raw(PDF, "contract.pdf")]))).rejects.toThrow(/text and data only/);
});

it("a field takes a small content with the request, which says what it is", async () => {
  const start = (id: string, contract: object) =>
    server.request("/agents/signer/jobs", {
      json: { job_context: { job_id: id }, job_fields: { contract } },
    });
  const data = PDF.toString("base64");
  expect((await start("job-1", { name: "../contract.pdf", data })).status).toBe(202);
  expect((await start("job-1", { name: "../contract.pdf", data })).status).toBe(202);
  expect((await start("job-1", { name: "other.pdf", data })).status).toBe(409);
  const job = await server.service.get(JOBS).get("job-1");
  expect(job.job_fields).toMatchObject({ contract: { name: "contract.pdf", type: "application/pdf" } });
  for (const wrong of [{ data: "%%%" }, { data, more: 1 }, { data: PNG.toString("base64") }])
    expect((await start("job-2", wrong)).status).toBe(422);
  const validate = await server.request("/agents/signer/validate-method-fields", {
    json: { job_fields: { contract: { name: "a.pdf", data } } },
  });
  expect(await validate.json()).toMatchObject({ valid: true });
  expect(await server.service.get(STORE).table("FileUpload").ids()).toEqual([]);
});
