import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, createServer as listen, type Server, type Socket } from "node:net";
import { defineAgent, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { FILES, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import { requirement } from "../_require.ts";
import { launch } from "../admin/_browser.ts";
import { until } from "../runs/_jobs.ts";
import { bundle } from "./_bundle.ts";

const signer = defineAgent({
  name: "Signer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ contract: v.optional(file({ accept: ["text/plain"] })) }),
      run: async ({ job, fields }) => {
        const { contract } = fields;
        const item = await job.openCase({ id: job.id, name: "Contract" });
        const { signed } = await item.ask("sign", {
          question: "Sign it",
          fields: v.object({ signed: file() }),
        });
        await item.close({});
        const given = contract && { name: contract.name, size: contract.size };
        return { given: given ?? null, signed: signed.name, size: signed.size };
      },
    },
  },
});

let server: TestServer;
let origin: string;
let script = "";
const pages = createServer((request, response) => {
  const isScript = request.url === "/page.js";
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? script : '<!doctype html><body><script type="module" src="/page.js"></script>');
});
beforeAll(async () => {
  await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  server = await testServer({ agents: [signer], allowedOrigins: [origin] });
});
afterAll(async () => {
  pages.close();
  await server[Symbol.asyncDispose]();
});

const service = () => client<typeof signer>(server.url, server.key);
const big = () => new File([Buffer.alloc(5_500_000, "a line\n")], "big ü.txt", { type: "text/plain" });

it("a file is sent with its progress, and a start and an answer take it", async () => {
  const seen: number[] = [];
  const contract = await service().upload(big(), { onProgress: (sent) => seen.push(sent) });
  expect([seen[0], seen.at(-1)]).toEqual([0, 5_500_000]);
  expect(seen.length).toBeGreaterThan(4);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  const job = await service().start("signer", { contract });
  await until(server.service, job.id, ["awaiting"]);
  const empty = await job.upload(new Blob([]), { name: "../empty.txt" });
  const [item] = await job.cases();
  await job.answer(item!.id, { signed: empty });
  expect(await job.result()).toEqual({
    ...{ given: { name: "big ü.txt", size: 5_500_000 }, signed: "empty.txt", size: 0 },
  });
});

/** Passes bytes on to the service, and cuts each connection after so many of them. */
function cutting(port: number, most: number): Promise<Server> {
  const proxy = listen((socket: Socket) => {
    const there = connect(port, "127.0.0.1");
    let passed = 0;
    socket.on("data", (bytes) => {
      passed += bytes.length;
      there.write(bytes);
      if (passed > most) for (const one of [socket, there]) one.destroy();
    });
    there.on("data", (bytes) => socket.write(bytes));
    for (const one of [socket, there]) one.on("error", () => {});
    socket.on("close", () => there.destroy());
    there.on("close", () => socket.end());
  });
  return new Promise((resolve) => proxy.listen(0, "127.0.0.1", () => resolve(proxy)));
}

it("an upload whose connections break arrives whole", async () => {
  const proxy = await cutting(Number(new URL(server.url).port), 1_400_000);
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const { upload } = await client(url, server.key).upload(big());
  proxy.close();
  const files = server.service.get(FILES);
  const sent = await files.find(upload);
  expect([sent.received, sent.sha256]).toEqual([
    5_500_000,
    (await files.find((await service().upload(big())).upload)).sha256,
  ]);
});

it("what is refused is said, and nothing is sent again", async () => {
  const wrong = new File(["no picture"], "x.png", { type: "image/png" });
  await expect(service().upload(wrong)).rejects.toMatchObject({ code: "unsupported_media_type" });
  await expect(client(server.url, "wrong").upload(wrong)).rejects.toMatchObject({ code: "unauthorized" });
  const ended = AbortSignal.abort(new Error("enough"));
  await expect(service().upload(big(), { signal: ended })).rejects.toThrow("enough");
  await expect(service().upload(big(), { naem: "x" } as never)).rejects.toThrow("naem is not known");
});

it("a token uploads for its job only, with the scope answer, and uses no upload of others", async () => {
  const [job, other] = [await service().start("signer", {}), await service().start("signer", {})];
  for (const { id } of [job, other]) await until(server.service, id, ["awaiting"]);
  const tokenOf = async (one: typeof job, scope: "answer" | "record") =>
    (await one.token({ scopes: [scope] })).token;
  const own = client(server.url, await tokenOf(job, "answer")).job(job.id);
  const text = new File(["signed"], "s.txt", { type: "text/plain" });
  const refused = { code: "forbidden" };
  await expect(
    client(server.url, await tokenOf(job, "record"))
      .job(job.id)
      .upload(text),
  ).rejects.toMatchObject(refused);
  await expect(
    client(server.url, await tokenOf(job, "answer"))
      .job(other.id)
      .upload(text),
  ).rejects.toMatchObject(refused);
  await expect(client(server.url, await tokenOf(job, "answer")).upload(text)).rejects.toMatchObject({
    status: 401,
  });
  const [item] = await job.cases();
  const foreign = await client(server.url, await tokenOf(other, "answer"))
    .job(other.id)
    .upload(text);
  for (const upload of [foreign, await service().upload(text)])
    await expect(own.answer(item!.id, { signed: upload })).rejects.toMatchObject({ code: "not_found" });
  await own.answer(item!.id, { signed: await own.upload(text) });
  expect(await job.result()).toMatchObject({ signed: "s.txt" });
});

const chromium = requirement("chromium");
chromium.it("a page of another origin uploads with a token", async () => {
  script = await bundle(`
    import { client } from "agent-control-service/client";
    const { url, token, id } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const job = client(url, token).job(id);
    const input = Object.assign(document.createElement("input"), { type: "file", ariaLabel: "File" });
    input.onchange = async () => {
      const seen = [];
      const signed = await job.upload(input.files[0], { onProgress: (sent, total) => seen.push(sent / total) });
      await job.answer(location.hash.split("case=")[1], { signed });
      document.title = "sent " + seen.at(-1);
    };
    document.body.append(input);
  `);
  const job = await service().start("signer", {});
  await until(server.service, job.id, ["awaiting"]);
  const [item] = await job.cases();
  const { token } = await job.token({ scopes: ["answer"] });
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(
    `${origin}/#${new URLSearchParams({ url: server.url, token, id: job.id })}&case=${item!.id}`,
  );
  const buffer = Buffer.alloc(2_500_000, "x");
  await page.getByLabel("File").setInputFiles({ name: "from page.txt", mimeType: "text/plain", buffer });
  await expect.poll(() => page.title()).toBe("sent 1");
  expect(await job.result()).toMatchObject({ signed: "from page.txt", size: buffer.length });
  expect((await server.service.get(JOBS).get(job.id)).status).toBe("completed");
  await browser.close();
});
