// @area core
import { defineAgent, defineChat } from "agent-control-service";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { Redactor } from "../../src/core/base/redactor.ts";
import { EmissionRelay } from "../../src/core/runs/emissions/emission-relay.ts";
import { Emissions } from "../../src/core/runs/emissions/emissions.ts";
import { LocalHints } from "../../src/core/store/local-hints.ts";
import { postgres } from "../../src/postgres.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { EventReader } from "../http/_event-reader.ts";
import { startInstances } from "./_instances.ts";

/** An agent whose step emits what the test says, and ends when the test lets it. */
function emitter() {
  let emit: (chunk: unknown) => void = () => {};
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const agent = defineAgent({
    name: "Emitter",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step("draft", async (info) => {
            emit = info.emit;
            emit("first ");
            await released;
            return "done";
          }),
      },
    },
  });
  return { agent, emit: (chunk: unknown) => emit(chunk), release };
}

/** The chunks that follow, up to one that ends with `last`. */
async function chunksUntil(stream: EventReader, last: string): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for (let event = await stream.next(); event; event = await stream.next()) {
    if (event.event !== "chunk") continue;
    chunks.push(...(event.data.chunks as unknown[]));
    if (
      chunks
        .filter((chunk) => typeof chunk === "string")
        .join("")
        .endsWith(last)
    )
      return chunks;
  }
  throw new Error(`The stream ended after ${JSON.stringify(chunks)}`);
}

it("over a database, what a step emits reaches the streams of another instance, from its beginning and in order", async () => {
  const { agent, emit, release } = emitter();
  const cluster = await sharedCluster();
  const schema = await borrowSchema(cluster);
  const store = postgres({ url: cluster.url, schema, connections: 3 });
  const options = { agents: [agent], store };
  const [one, other] = await startInstances([options, options]);
  await one.request("/agents/emitter/jobs", { json: { job_context: { job_id: "job-1" } } });
  await using here = new EventReader(await one.request("/jobs/job-1/stream"));
  await chunksUntil(here, "first ");

  await using stream = new EventReader(await other.request("/jobs/job-1/stream"));
  expect(await chunksUntil(stream, "first ")).toEqual(["first "]);
  emit({ an: "object" });
  // A key of the service is masked, and a text that is longer than a notification comes in parts.
  const long = `${"long 'text' \\ \u0000 äöü ".repeat(1000)}`;
  emit(`${one.key} ${long}end. `);
  const chunks = await chunksUntil(stream, "end. ");
  await using late = new EventReader(await other.request("/jobs/job-1/stream"));
  const all = await chunksUntil(late, "end. ");
  release();
  const rest = await stream.rest();

  expect(chunks[0]).toEqual({ an: "object" });
  const text = chunks.slice(1).join("");
  expect(text).not.toContain(one.key);
  expect(text.endsWith(` ${long}end. `)).toBe(true);
  expect(all).toEqual(["first ", ...chunks]);
  const names = rest.map(({ event }) => event);
  expect(names.at(-1)).toBe("end");
  expect(names.slice(names.indexOf("call"))).not.toContain("chunk");
});

it("an OpenAI client gets an answer token by token at an instance that does not run the thread", async () => {
  let next = () => {};
  const chat = defineChat({
    name: "Parrot",
    version: "1.0.0",
    reply: ({ turn }) =>
      turn.step("model", async ({ emit }) => {
        for (const word of ["One ", "two ", "three. "]) {
          const isRead = new Promise<void>((resolve) => {
            next = resolve;
          });
          emit(word);
          await isRead;
        }
        return "One two three. ";
      }),
  });
  const options = { agents: [chat] };
  const [one, other] = await startInstances([options, options]);
  await one.request("/agents/parrot/jobs", {
    json: { job_context: { job_id: "t" }, job_fields: { message: "hello" } },
  });
  const client = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: other.key, maxRetries: 0 });
  await using here = new EventReader(await one.request("/jobs/t/stream"));
  for (const word of ["One ", "two ", "three. "]) {
    await chunksUntil(here, word);
    next();
  }

  const stream = await client.chat.completions.create({
    ...{ model: "parrot", stream: true, metadata: { thread_id: "t" } },
    messages: [{ role: "user", content: "again" }],
  });
  const words: string[] = [];
  for await (const { choices } of stream) {
    const word = choices[0]?.delta.content;
    if (!word) continue;
    words.push(word);
    // The next token is sent once this one has come.
    next();
  }

  expect(words).toEqual(["One ", "two ", "three. "]);
});

it("chunks that got lost between instances are counted, and those after the end of their attempt are dropped", async () => {
  const step = { run: 1, name: "draft", position: 0, attempt: 1 };
  const hints = new LocalHints();
  const messages: string[] = [];
  hints.on((hint) => {
    if (hint !== "all" && hint.topic === "emitted") messages.push(...hint.ids);
  });
  let [isLossy, lost] = [false, 0];
  const lossy = {
    tell: (topic: string, ids: readonly string[]) => {
      if (isLossy) lost += ids.length;
      else hints.tell(topic, ids);
    },
    on: hints.on.bind(hints),
  };
  const [owner, follower] = [new Emissions(new Redactor()), new Emissions(new Redactor())];
  const sends = new EmissionRelay({ hints: lossy, emissions: owner, instance: () => "a" });
  const reads = new EmissionRelay({ hints, emissions: follower, instance: () => "b" });
  const attempt = owner.attempt("job 1", () => step);
  const reader = follower.follow("job 1", () => {});
  const unfollow = reads.follow("job 1", () => {});
  reads.setOwner("job 1", "a");
  const taken = async () => {
    let read = reader.take("all");
    await expect
      .poll(() => {
        read = [...read, ...reader.take("all")];
        return read.length;
      })
      .toBeGreaterThan(0);
    return read;
  };

  attempt.emit("one ");
  expect(await taken()).toMatchObject([{ index: 0, chunks: ["one "], name: "draft" }]);
  isLossy = true;
  attempt.emit("two ");
  await expect.poll(() => lost).toBe(1);
  isLossy = false;
  attempt.emit("three ");
  expect(await taken()).toMatchObject([{ index: 2, skipped: 1, chunks: ["three "] }]);

  const entry = { type: "call", call: "step", at: "", name: "draft", position: 0 } as const;
  reads.settle("job 1", [{ entry }]);
  const sent = messages.length;
  attempt.emit("four ");
  await expect.poll(() => messages.length).toBeGreaterThan(sent);
  expect(reader.take("all")).toEqual([]);
  expect(messages.every((message) => JSON.stringify(message).length < 7000)).toBe(true);

  unfollow();
  sends.close();
  reads.close();
});
