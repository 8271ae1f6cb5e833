import { defineAgent } from "agent-control-service";
import { JOB_FEED, STREAMS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redactor } from "../../src/core/base/redactor.ts";
import { Emissions } from "../../src/core/runs/emissions/emissions.ts";
import { EventReader, type ReadEvent } from "./_event-reader.ts";

/*
 * Chunks end with a character that keys of the service do not have: what may be the beginning of a key is held back until
 * the next chunk.
 */

/** What the steps under way do next is decided by the test, by the id of their job. */
class Script {
  readonly #waiting = new Map<string, (action: Action) => void>();
  readonly #given = new Map<string, Action[]>();

  next(job: string): Promise<Action> {
    const given = this.#given.get(job)?.shift();
    if (given) return Promise.resolve(given);
    return new Promise((resolve) => this.#waiting.set(job, resolve));
  }

  do(job: string, ...actions: Action[]): void {
    for (const action of actions) {
      const waiting = this.#waiting.get(job);
      this.#waiting.delete(job);
      if (waiting) waiting(action);
      else this.#given.set(job, [...(this.#given.get(job) ?? []), action]);
    }
  }
}

type Action = { emit: unknown } | { end: unknown } | { fail: string };

const script = new Script();
const late: ((chunk: unknown) => void)[] = [];

const emitter = defineAgent({
  name: "Emitter",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      fields: [{ name: "steps", field_type: "IntegerField" }],
      async run({ job, fields }) {
        const item = await job.openCase({ id: `case-of-${job.id}`, name: "Item" });
        for (let n = 0; n < ((fields.steps as number | undefined) ?? 1); n++) {
          await item.step(
            "draft",
            async ({ emit }) => {
              late.push(emit);
              for (;;) {
                const action = await script.next(job.id);
                if ("emit" in action) emit(action.emit);
                else if ("fail" in action) throw new Error(action.fail);
                else return action.end;
              }
            },
            { retries: 2, backoff: { initial: "1ms" } },
          );
        }
      },
    },
  },
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [emitter] });
});
afterAll(() => server[Symbol.asyncDispose]());

const start = (id: string, more: Record<string, unknown> = {}) =>
  server.request("/agents/emitter/jobs", { json: { job_context: { job_id: id }, ...more } });
const follow = async (id: string, lastEventId?: string) =>
  new EventReader(
    await server.request(`/jobs/${id}/stream`, {
      headers: lastEventId === undefined ? {} : { "last-event-id": lastEventId },
    }),
  );
const nextChunk = async (reader: EventReader): Promise<ReadEvent["data"]> => {
  for (let event = await reader.next(); event; event = await reader.next()) {
    if (event.event === "chunk") return event.data;
  }
  throw new Error("The stream has ended");
};
const chunksOf = (events: readonly ReadEvent[]) => events.filter(({ event }) => event === "chunk");

describe("what a step emits", () => {
  it("is in the stream of its job, marked with case, step and attempt, before the step ends", async () => {
    await start("live");
    await using reader = await follow("live");

    script.do("live", { emit: "Hel " });
    const first = await nextChunk(reader);
    script.do("live", { emit: { type: "reasoning", text: "hm." } });
    const second = await nextChunk(reader);
    script.do("live", { emit: "lo." }, { end: "Hel lo." });
    const rest = await reader.rest();

    const step = { type: "chunk", run: 1, case_id: "case-of-live", name: "draft", attempt: 1 };
    expect(first).toMatchObject({ ...step, index: 0, chunks: ["Hel "] });
    expect(first).toHaveProperty("position");
    expect(second).toEqual({ ...first, index: 1, chunks: [{ type: "reasoning", text: "hm." }] });
    expect(rest.map(({ event }) => event).slice(0, 2)).toEqual(["chunk", "call"]);
    expect(rest[0]).toMatchObject({ data: { index: 2, chunks: ["lo."] } });
    expect(rest[0]?.id).toBeUndefined();
    expect(rest[1]?.data).toMatchObject({ position: first.position, case_id: "case-of-live" });
  });

  it("is not stored", async () => {
    await start("unstored");
    await using reader = await follow("unstored");
    script.do("unstored", { emit: "only for now." }, { end: null });
    await reader.rest();

    await using later = await follow("unstored");
    const events = await later.rest();

    expect(chunksOf(events)).toEqual([]);
    expect(JSON.stringify(events)).not.toContain("only for now.");
  });

  it("starts over with the next attempt", async () => {
    await start("retried");
    await using reader = await follow("retried");
    script.do("retried", { emit: "bad." });
    expect(await nextChunk(reader)).toMatchObject({ attempt: 1, index: 0 });
    script.do(
      "retried",
      { emit: " worse." },
      { fail: "the model hung up" },
      { emit: "good." },
      { end: "good" },
    );

    const rest = await reader.rest();

    const at = (event: string, attempt: number) =>
      rest.findIndex((one) => one.event === event && (one.data.attempt ?? one.data.attempts) === attempt);
    expect(rest[at("chunk", 1)]).toMatchObject({ data: { index: 1, chunks: [" worse."] } });
    expect(rest[at("chunk", 2)]).toMatchObject({ data: { index: 0, chunks: ["good."] } });
    expect(at("chunk", 1)).toBeLessThan(at("attempt", 1));
    expect(at("chunk", 2)).toBeLessThan(at("call", 2));
  });

  it("reaches a late reader as far as the step has come, and one that reconnects", async () => {
    await start("late");
    script.do("late", { emit: "one " }, { emit: "two " });
    await expect.poll(async () => (await peek("late")).chunks).toEqual(["one ", "two "]);

    await using second = await follow("late", "1");
    expect(await nextChunk(second)).toMatchObject({ index: 0, chunks: ["one ", "two "] });
    script.do("late", { emit: "three." });
    expect(await nextChunk(second)).toMatchObject({ index: 2, chunks: ["three."] });
    script.do("late", { end: 1 });
  });

  it("is masked where it is a secret, also one that is split over chunks", async () => {
    const secret = "tok-7f3a9b2c1d";
    const encrypted = await server.request("/utils/encrypt?agent=emitter", {
      json: JSON.stringify({ TOKEN: secret }),
    });
    const sealed = (await encrypted.json()) as string;
    await start("masked", { encrypted_agent_parameters: sealed });
    await using reader = await follow("masked");
    script.do(
      "masked",
      ...["The token is tok-7f", "3a9b2c", "1d.", { type: "x", text: secret }].map((emit) => ({ emit })),
      { end: null },
    );

    const chunks = chunksOf(await reader.rest()).flatMap(({ data }) => data.chunks as unknown[]);

    expect(chunks.filter((chunk) => typeof chunk === "string").join("")).toBe("The token is [secret].");
    expect(chunks.at(-1)).toEqual({ type: "x", text: "[secret]" });
  });

  it("must be JSON, or the step fails with a message that names it", async () => {
    await start("wrong");
    script.do("wrong", { emit: { at: new Date(0) } }, { emit: 1n }, { emit: Number.NaN });
    await using reader = await follow("wrong");

    const events = await reader.rest();

    expect(events.filter(({ event }) => event === "attempt").map(({ data }) => data.error)).toEqual([
      expect.stringContaining('A chunk of step "draft".at is a Date'),
      expect.stringContaining("is a bigint"),
    ]);
    expect(events.at(-1)).toMatchObject({ event: "end", data: { status: "failed" } });
  });

  it("is ignored once the attempt is over", async () => {
    late.length = 0;
    await start("over", { job_fields: { steps: 2 } });
    await using reader = await follow("over");
    script.do("over", { emit: "a." }, { end: 1 });
    await expect.poll(() => late.length).toBe(2);
    late[0]!("too late");
    script.do("over", { emit: "b." }, { end: 2 });

    const chunks = chunksOf(await reader.rest()).flatMap(({ data }) => data.chunks as unknown[]);

    expect(chunks).toEqual(["a.", "b."]);
  });

  it("is ignored once the attempt is over, also where it is the first one", async () => {
    late.length = 0;
    await start("silent", { job_fields: { steps: 2 } });
    await using reader = await follow("silent");
    script.do("silent", { end: 1 });
    await expect.poll(() => late.length).toBe(2);
    late[0]!("too late");
    script.do("silent", { emit: "b." }, { end: 2 });

    const chunks = chunksOf(await reader.rest()).flatMap(({ data }) => data.chunks as unknown[]);

    expect(chunks).toEqual(["b."]);
  });

  it("reaches 200 readers, each in full", async () => {
    await start("many");
    const readers = await Promise.all(Array.from({ length: 200 }, () => follow("many")));
    const all = readers.map((reader) => reader.rest());
    const words = Array.from({ length: 50 }, (_, n) => `word-${n} `);
    script.do("many", ...words.map((emit) => ({ emit })), { end: null });

    for (const events of await Promise.all(all)) {
      expect(chunksOf(events).flatMap(({ data }) => data.chunks as unknown[])).toEqual(words);
    }
    await expect.poll(() => server.service.get(STREAMS).size).toBe(0);
  });
});

it("a plugin follows a job as its stream does", async () => {
  await start("fed");
  const events: string[] = [];
  script.do("fed", { emit: "x." }, { end: 1 });

  for await (const { event } of server.service.get(JOB_FEED).watch("fed")) events.push(event);

  expect(events[0]).toBe("snapshot");
  expect(events).toContain("chunk");
  expect(events.at(-1)).toBe("end");
});

describe("emissions", () => {
  const step = { run: 1, name: "draft", position: 0, attempt: 1 };

  it("keep the newest of much that nobody reads, and count what is dropped", () => {
    const emissions = new Emissions(new Redactor());
    const attempt = emissions.attempt("job-1", () => step);
    const long = "x".repeat(1000);
    for (let n = 0; n < 1000; n++) attempt.emit(`${n} ${long}`);

    const reader = emissions.follow("job-1", () => {});
    const [first] = reader.take("all");
    attempt.emit("y".repeat(300_000));
    attempt.emit("last");
    const rest = reader.take("all");

    expect(first!.index).toBeGreaterThan(700);
    expect(first!.skipped).toBe(first!.index);
    expect(first!.index + first!.chunks.length).toBe(1000);
    expect(first!.chunks.at(-1)).toBe(`999 ${long}`);
    expect(rest).toMatchObject([{ index: 1001, skipped: 1, chunks: ["last"] }]);
  });

  it("are kept beyond the end of an attempt for those who followed it, and for nobody else", () => {
    const emissions = new Emissions(new Redactor());
    const reader = emissions.follow("job-1", () => {});
    const attempt = emissions.attempt("job-1", () => step);
    attempt.emit("a");
    attempt.end();

    const late = emissions.follow("job-1", () => {});

    expect(late.take("all")).toEqual([]);
    expect(reader.take("over")).toMatchObject([{ index: 0, chunks: ["a"] }]);
    expect(reader.take("all")).toEqual([]);
  });

  it("of many attempts stay below a bound together, and what is dropped is counted", () => {
    const emissions = new Emissions(new Redactor());
    const reader = emissions.follow("job-1", () => {});
    const long = "x".repeat(50_000);
    for (let n = 0; n < 2000; n++) {
      const attempt = emissions.attempt("job-1", () => ({ ...step, position: n }));
      attempt.emit(long);
      attempt.end();
    }

    let [kept, dropped] = [0, 0];
    for (let taken = reader.take("over"); taken.length > 0; taken = reader.take("over")) {
      for (const { chunks, skipped = 0 } of taken)
        [kept, dropped] = [kept + chunks.length, dropped + skipped];
    }

    expect(kept + dropped).toBe(2000);
    expect(kept * long.length).toBeLessThan(70_000_000);
    expect(kept).toBeGreaterThan(500);
  });
});

/** What a new reader of a job gets first of its step. */
async function peek(id: string): Promise<ReadEvent["data"]> {
  await using reader = await follow(id);
  return await nextChunk(reader);
}
