import { defineAgent, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { JOBS } from "agent-control-service/plugin";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import * as v from "valibot";
import { expect, it } from "vitest";
import { until } from "./_jobs.ts";

const PDF = Buffer.from("%PDF-1.7\nthe contract");
const BASE64 = PDF.toString("base64");
const URL_OF_IT = `data:application/pdf;base64,${BASE64}`;
const ANSWER = { choices: [{ message: { role: "assistant", content: "read" } }] };

it("files in the request of a model reach the provider, and the journal and the page have references only", async () => {
  await using model = await modelServer({ reply: () => "It is a contract." });
  const reader = defineAgent({
    name: "Reader",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ contract: file() }),
        run: async ({ job, fields: { contract } }) => {
          const openAi = new OpenAI({ baseURL: model.url, apiKey: "test", maxRetries: 0 });
          const item = await job.openCase({ id: job.id, name: "Contract" });
          const made = await item.step("picture", ({ file }) => file("page.txt", "page one"));
          const content = [
            { type: "text", text: "What is it?" },
            { type: "file", file: { filename: contract.name, file_data: contract } },
            { type: "image_url", image_url: { url: made } },
          ];
          const answer = await item.model(
            "look",
            { model: "gpt-5-mini", messages: [{ role: "user", content }] },
            (request, { signal }) => openAi.chat.completions.create(request as never, { signal }),
          );
          await item.close({});
          return (answer as OpenAI.ChatCompletion).choices[0]!.message.content;
        },
      },
    },
  });
  await using server = await testServer({ agents: [reader] });
  const service = client<typeof reader>(server.url, server.key);
  const contract = await service.upload(new File([PDF], "contract.pdf", { type: "application/pdf" }));
  const job = await service.start("reader", { contract });
  expect(await job.result()).toBe("It is a contract.");
  expect(model.paid).toHaveLength(1);
  expect((model.paid[0]!.body as unknown as OpenAI.ChatCompletionCreateParams).messages).toEqual([
    {
      role: "user",
      content: [
        { type: "text", text: "What is it?" },
        { type: "file", file: { filename: "contract.pdf", file_data: URL_OF_IT } },
        {
          type: "image_url",
          image_url: { url: `data:text/plain;base64,${Buffer.from("page one").toString("base64")}` },
        },
      ],
    },
  ]);
  const log = JSON.stringify(await server.service.get(JOBS).log(job.id));
  expect(log).not.toContain(BASE64.slice(0, 20));
  const [{ sha256 } = { sha256: "" }] = await job.files();
  expect(log).toContain(sha256);
  for (const path of [`/admin/jobs/${job.id}`, `/admin/cases/${(await job.cases())[0]!.id}`]) {
    const page = await (await server.request(path, { headers: { accept: "text/html" } })).text();
    expect(page).toContain(
      `<a href="/admin/jobs/${job.id}/files/${sha256}/view?name=contract.pdf"><bdi>contract.pdf</bdi>`,
    );
  }
});

it("a file has the form that the API of a model wants where it is, and what has none is not copied", async () => {
  const seen: unknown[] = [];
  const agent = defineAgent({
    name: "Forms",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const pdf = await job.file("a.pdf", PDF);
          const tools = { get: () => 1 };
          const requests = [
            { messages: [{ content: [{ type: "document", source: pdf }] }] },
            { contents: [{ parts: [{ inlineData: pdf }] }] },
            { messages: [{ content: [{ type: "file", data: pdf, mediaType: pdf.type }] }] },
            { messages: [{ content: [{ type: "image", image: pdf }] }] },
            { input: [{ content: [{ type: "input_audio", input_audio: { data: pdf, format: "wav" } }] }] },
            { input: [{ content: [{ type: "input_file", file_data: pdf }] }], tools },
            { messages: [{ content: "nothing" }], tools },
          ];
          for (const [at, request] of requests.entries())
            await job.model(`call ${at}`, request, (sent) => {
              seen.push(sent);
              if (at === 6) expect(sent).toBe(request);
              return ANSWER;
            });
          await job.model("foreign", { url: { ...pdf, sha256: "0".repeat(64) } }, () => ANSWER);
        },
      },
    },
  });
  await using server = await testServer({ agents: [agent] });
  const job = await client(server.url, server.key).start("forms", {});
  const ended = await until(server.service, job.id, ["failed"]);
  expect(ended.error).toContain("has no file with the SHA-256");
  const source = { type: "base64", media_type: "application/pdf", data: BASE64 };
  expect(seen.slice(0, 6)).toMatchObject([
    { messages: [{ content: [{ type: "document", source }] }] },
    { contents: [{ parts: [{ inlineData: { mimeType: "application/pdf", data: BASE64 } }] }] },
    { messages: [{ content: [{ type: "file", data: new Uint8Array(PDF) }] }] },
    { messages: [{ content: [{ type: "image", image: new Uint8Array(PDF) }] }] },
    { input: [{ content: [{ input_audio: { data: BASE64, format: "wav" } }] }] },
    { input: [{ content: [{ file_data: URL_OF_IT }] }], tools: { get: expect.any(Function) } },
  ]);
});

it("a call of a model with a file resumes wherever the process ends", async () => {
  const agent = defineAgent({
    name: "Resumed",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const pdf = await job.file("a.pdf", PDF);
          const item = await job.openCase({ id: job.id, name: "Contract" });
          const answer = await item.model("look", { url: pdf }, ({ url }) => ({
            ...ANSWER,
            length: String(url).length,
          }));
          await item.close({});
          return (answer as { length: number }).length;
        },
      },
    },
  });
  expect((await crashTest(agent)).interruptions).toBeGreaterThan(3);
});
