import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { followJob, type JobEvent } from "../../src/core/cli/job/follow-job.ts";
import { readFields } from "../../src/core/cli/job/read-fields.ts";
import { readServerEvents } from "../../src/core/cli/job/server-events.ts";
import { ServiceClient } from "../../src/core/cli/job/service-client.ts";
import type { AgentMethodField, FieldType } from "../../src/core/models/agent-method-field.ts";

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
  it("is read whatever pieces it comes in", async () => {
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

  it("goes on behind the last event when the connection breaks, and misses nothing", async () => {
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
