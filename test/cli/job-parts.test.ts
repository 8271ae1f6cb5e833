import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { ChunkPrinter } from "../../src/cli/job/chunk-printer.ts";
import { followJob, type JobEvent, readJob } from "../../src/cli/job/follow-job.ts";
import { listCases } from "../../src/cli/job/list-cases.ts";
import { readFields } from "../../src/cli/job/read-fields.ts";
import { ServiceClient } from "../../src/cli/job/service-client.ts";
import { readServerEvents } from "../../src/client/server-events.ts";
import type { AgentMethodField, FieldType } from "../../src/core/models/agent-method-field.ts";
import type { EmittedChunks } from "../../src/core/models/emitted-chunks.ts";

const field = (name: string, field_type: FieldType): AgentMethodField => ({
  name,
  field_type,
  type: null,
  description: null,
  choices: null,
  default: null,
  widget: null,
  required: false,
});
const FIELDS = [
  field("name", "CharField"),
  field("limit", "IntegerField"),
  field("price", "FloatField"),
  field("sure", "BooleanField"),
  field("tags", "MultipleChoiceField"),
  field("extra", "JSONField"),
];

/** A server with given responses, and the URLs that were requested from it. */
async function serve(
  answer: (path: string, response: ServerResponse, nth: number) => void,
): Promise<{ client: ServiceClient; paths: string[]; close: () => void }> {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url!);
    answer(request.url!, response, paths.length);
  }).listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { client: new ServiceClient({ url, key: "k", fetch }), paths, close: () => void server.close() };
}

const SNAPSHOT = 'event: snapshot\ndata: {"id":"j"}\n\n';
const END = 'event: end\ndata: {"status":"completed"}\n\n';

describe("following a job", () => {
  it("waits while the service restarts or a proxy cannot reach it", async () => {
    const { client, close } = await serve((path, response, nth) => {
      if (!path.endsWith("/stream")) return response.end('{"job_id":"j","status":"in_progress"}');
      response.setHeader("content-type", "text/event-stream");
      if (nth === 1) return response.end(SNAPSHOT);
      if (nth === 2) return response.writeHead(502).end("Bad gateway");
      if (nth === 3) return response.end();
      response.end(SNAPSHOT + END);
    });

    const events: JobEvent[] = [];
    for await (const event of followJob(client, "j", { wait: async () => {} })) events.push(event);
    close();

    expect(events.map((event) => event.type)).toEqual(["snapshot", "reconnecting", "end"]);
    expect(events.at(-1)).toMatchObject({ status: "completed" });
  });

  it("waits while something else answers at the port of a service that restarts", async () => {
    const strangers: ((response: ServerResponse) => void)[] = [
      (response) => response.setHeader("content-type", "text/html").end("<h1>Hello</h1>"),
      (response) => response.writeHead(404, { "content-type": "text/html" }).end("<h1>Not found</h1>"),
      (response) => response.writeHead(401).end('{"error":"The API key is wrong"}'),
      (response) => response.writeHead(302, { location: "https://elsewhere.example/" }).end(),
    ];
    const { client, close } = await serve((_path, response, nth) => {
      const stranger = strangers[nth - 2];
      if (stranger) return stranger(response);
      response.setHeader("content-type", "text/event-stream");
      response.end(nth === 1 ? SNAPSHOT : SNAPSHOT + END);
    });

    const events: JobEvent[] = [];
    for await (const event of followJob(client, "j", { wait: async () => {} })) events.push(event);
    close();

    expect(events.map((event) => event.type)).toEqual(["snapshot", "reconnecting", "end"]);
  });

  it("ends with the reason once something else has answered for too long, or the job was deleted", async () => {
    const follow = async (answer: (response: ServerResponse) => void) => {
      const { client, paths, close } = await serve((_path, response, nth) => {
        if (nth > 1) return answer(response);
        response.setHeader("content-type", "text/event-stream").end(SNAPSHOT);
      });
      const events = followJob(client, "j", { patience: 2, wait: async () => {} });
      const read = async () => {
        for await (const _event of events);
        return "no reason";
      };
      const message = await read().catch((error: Error) => error.message);
      close();
      return { message, requests: paths.length };
    };

    const page = await follow((response) =>
      response.setHeader("content-type", "text/html").end("<h1>Hello</h1>"),
    );
    const deleted = await follow((response) => response.writeHead(404).end('{"error":"No job \\"j\\""}'));

    expect(page).toEqual({
      message: expect.stringMatching(/does not respond like an agent control service/),
      requests: 3,
    });
    expect(deleted).toEqual({ message: 'No job "j"', requests: 2 });
  });

  it("requests the job by its id, whatever characters the id has", async () => {
    const { client, paths, close } = await serve((_, response) => void response.writeHead(404).end("{}"));

    await expect(readJob(client, "../agents?x")).rejects.toThrow("404");
    close();

    expect(paths).toEqual(["/jobs/..%2Fagents%3Fx/stream"]);
  });
});

describe("what steps emit", () => {
  const chunk = (more: Partial<EmittedChunks>): EmittedChunks => ({
    ...{ type: "chunk", run: 1, name: "draft", position: 0, attempt: 1, index: 0, chunks: [] },
    ...more,
  });
  const printAll = (chunks: readonly EmittedChunks[], parts = false): string => {
    let out = "";
    const write = (text: string) => {
      out += text;
    };
    const printer = new ChunkPrinter({ print: (line) => write(`${line}\n`), ...(parts && { write }) });
    for (const one of chunks) printer.print(one);
    printer.endLine();
    return out;
  };

  it("is printed as one text, and again from its start for another attempt", () => {
    const chunks = [
      chunk({ chunks: ["Hel", "lo"] }),
      chunk({ index: 2, chunks: [" you"] }),
      chunk({ index: 0, chunks: ["Hel", "lo", " you", "!"] }),
      chunk({ attempt: 2, chunks: ["Hi"] }),
      chunk({ case_id: "c-1", position: 0, chunks: [{ tool: "search" }, "found"] }),
      chunk({ case_id: "c-1", position: 0, index: 9, skipped: 7, chunks: ["end"] }),
    ];
    const expected = [
      "draft: Hello you!",
      "draft, attempt 2: Hi",
      'c-1: draft: {"tool":"search"}',
      "c-1: draft: found[7 missed] end",
      "",
    ].join("\n");

    expect(printAll(chunks)).toBe(expected);
    expect(printAll(chunks, true)).toBe(expected);
  });
});

it("reads all cases of a large job", async () => {
  const all = Array.from({ length: 2500 }, (_, n) => ({ id: `c${n}` }));
  const { client, close } = await serve((path, response) => {
    const { searchParams } = new URL(path, "http://x");
    const skip = Number(searchParams.get("skip") ?? 0);
    response.end(JSON.stringify(all.slice(skip, skip + Number(searchParams.get("limit")))));
  });

  const cases = await listCases(client, "j", 0);
  close();

  expect(cases).toEqual(all);
});

describe("--field", () => {
  it.each([
    ["name=42", { name: "42" }],
    ["name=a=b", { name: "a=b" }],
    ["name=", { name: "" }],
    ["limit=42", { limit: 42 }],
    ["limit=many", { limit: "many" }],
    ["price=-1.5", { price: -1.5 }],
    ["sure=yes", { sure: true }],
    ["sure=off", { sure: false }],
    ["tags=a, b", { tags: ["a", "b"] }],
    ['extra={"a":1}', { extra: { a: 1 } }],
    ["extra=plain", { extra: "plain" }],
    ['name:=["json"]', { name: ["json"] }],
  ])("%s", (text, values) => {
    expect(readFields([text], FIELDS)).toEqual(values);
  });

  it.each([
    ["name", "--field name has no value"],
    ["nmae=x", 'There is no field "nmae"'],
    ["limit:=many", "--field limit:=… must be JSON"],
  ])("refuses %s", (text, message) => {
    expect(() => readFields([text], FIELDS)).toThrow(message);
  });
});

describe("a stream of events", () => {
  it("is read in chunks of any size", async () => {
    const text =
      ': hello\n\nid: 7\nevent: status\ndata: {"a":\ndata: "é"}\n\nretry: 1000\ndata: x\r\n\r\ndata: cut off';
    const bytes = new TextEncoder().encode(text);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });

    const events = [];
    for await (const event of readServerEvents(body)) events.push(event);

    expect(events).toEqual([
      { event: "status", id: "7", data: '{"a":\n"é"}' },
      { event: "message", id: undefined, data: "x" },
    ]);
  });

  it("resumes after the last event when the connection breaks, and misses nothing", async () => {
    const asked: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      asked.push(request.headers["last-event-id"] as string | undefined);
      response.setHeader("content-type", "text/event-stream");
      if (asked.length === 1) {
        response.write(
          'event: snapshot\ndata: {"id":"j"}\n\nid: 1\nevent: mark\ndata: {"mark":"started"}\n\n',
        );
        setTimeout(() => response.destroy(), 50);
        return;
      }
      response.end(
        'event: snapshot\ndata: {"id":"j"}\n\nid: 2\nevent: mark\ndata: {"mark":"resumed"}\n\nevent: end\ndata: {"status":"completed"}\n\n',
      );
    }).listen(0, "127.0.0.1");
    await new Promise((done) => server.once("listening", done));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new ServiceClient({ url, key: "k", fetch });

    const events: JobEvent[] = [];
    for await (const event of followJob(client, "j", { wait: async () => {} })) events.push(event);
    server.close();

    expect(asked).toEqual([undefined, "1"]);
    expect(events.map((event) => (event.type === "entry" ? event.entry : event.type))).toEqual([
      "snapshot",
      { mark: "started" },
      "reconnecting",
      { mark: "resumed" },
      "end",
    ]);
  });
});
