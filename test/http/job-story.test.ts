import { EventSchema } from "@ag-ui/core/schemas";
import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { STORE } from "../../src/core/service/tokens.ts";
import { follow, said } from "../a2a/_call.ts";
import { startInstances } from "../instances/_instances.ts";

const fields = [{ name: "approved", field_type: "BooleanField" as const, required: true }];

/** What the writers wait for, by the name of their job's topic. */
const gates = new Map<string, () => void>();
const gate = (name: string) => new Promise<void>((open) => void gates.set(name, open));

/** Emits what it returns, what it does not, and what fails; uses a tool, delivers a case, asks, and writes on. */
const writer = defineAgent({
  name: "Writer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "topic", required: true }],
      run: async ({ job, fields: { topic } }) => {
        const title = await job.step("title", ({ emit }) => {
          for (const token of ["On ", String(topic)]) emit(token);
          return `On ${topic}`;
        });
        const facts = await job.openCase({ id: "facts", name: "Facts" });
        await facts.step("search", () => ({ found: 2 }), { kind: "tool", input: { about: topic }, cost: 1 });
        await facts.close({ found: 2 });
        if (String(topic).startsWith("slow")) await job.step("wait", () => gate(String(topic)));
        await job.step(
          "draft",
          ({ emit, attempt }) => {
            emit(attempt === 1 ? "Dogs " : "Cats ");
            emit({ words: attempt });
            emit("sleep.");
            if (attempt === 1) throw new Error("The model hung up");
            return { words: 2 };
          },
          { retries: 1, backoff: { initial: "1ms" } },
        );
        const review = await job.openCase({ id: "review", name: "Review" });
        const { approved } = await review.ask({ question: `Publish ${title}?`, fields });
        await review.step("publish", ({ emit }) => emit("Published."), { cost: 2 });
        await review.close({ approved });
        if (topic === "broken") throw new Error("The press is away");
        return { title };
      },
    },
  },
});
const options = { agents: [writer], plugins: [a2a({ wait: "20s" }), agUi()] };

// biome-ignore lint/suspicious/noExplicitAny: any member of any event
type Sent = any;

/** A client that streams: it starts a job, and answers what that asks. */
interface Client {
  readonly start: (server: TestServer, topic: string, signal?: AbortSignal) => Promise<Sent[]>;
  readonly answer: (server: TestServer, topic: string, asked: readonly Sent[]) => Promise<Sent[]>;
  /** Each event of `texts` that follows one of the same text is joined with it: how a text is cut is not part of it. */
  readonly joined: (events: readonly Sent[]) => Sent[];
}

async function run(server: TestServer, input: object, signal?: AbortSignal): Promise<Sent[]> {
  const json = { messages: [], tools: [], context: [], state: {}, ...input };
  const response = await server.request("/ag-ui/writer", { json, ...(signal && { signal }) });
  const lines = (await response.text()).split("\n\n").filter((line) => line.startsWith("data: "));
  const events = lines.map((line) => JSON.parse(line.slice(6)) as Sent);
  for (const event of events) expect(EventSchema.safeParse(event).error).toBeUndefined();
  return events;
}

function addPart(parts: Sent[], part: Sent): void {
  const last = parts.at(-1);
  if (last?.text !== undefined && part.text !== undefined) last.text += part.text;
  else parts.push(part);
}

const CLIENTS: Readonly<Record<string, Client>> = {
  ...Object.fromEntries(
    (["JSONRPC", "HTTP+JSON"] as const).map((binding): [string, Client] => {
      const stream = (server: TestServer, params: Record<string, unknown>) =>
        follow(server, binding, { method: "SendStreamingMessage", params, agent: "writer" });
      const client: Client = {
        start: (server, topic) => stream(server, said(`start ${topic}`, [{ text: topic }])),
        answer: (server, topic, [{ task }]) =>
          stream(server, said(`answer ${topic}`, [{ data: { approved: true } }], { taskId: task.id })),
        joined: (events) => {
          const joined: Sent[] = [];
          for (const event of structuredClone(events) as Sent[]) {
            const [artifact, before] = [event.artifactUpdate, joined.at(-1)?.artifactUpdate];
            const isNext = artifact?.append && before?.artifact.artifactId === artifact.artifact.artifactId;
            if (isNext) for (const part of artifact.artifact.parts) addPart(before.artifact.parts, part);
            else joined.push(event);
          }
          return joined;
        },
      };
      return [`A2A, ${binding}`, client];
    }),
  ),
  "AG-UI": {
    start: (server, topic, signal) =>
      run(
        server,
        { threadId: topic, runId: "r1", messages: [{ id: "m1", role: "user", content: topic }] },
        signal,
      ),
    answer: (server, topic, asked) => {
      const { interrupts } = asked.at(-1).outcome;
      const resume = [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }];
      return run(server, { threadId: topic, runId: "r2", resume });
    },
    joined: (events) => {
      const joined: Sent[] = [];
      for (const event of events) {
        const last = joined.at(-1);
        if (event.delta && last?.type === "TEXT_MESSAGE_CONTENT" && last.messageId === event.messageId)
          joined[joined.length - 1] = { ...last, delta: last.delta + event.delta };
        else joined.push(event);
      }
      return joined;
    },
  },
};

/** All texts that the events have, in order. */
const textsIn = (events: readonly Sent[]): string =>
  events
    .flatMap(({ delta, artifactUpdate }) => [
      ...(typeof delta === "string" ? [delta] : []),
      ...(artifactUpdate?.artifact.parts ?? []).flatMap(({ text }: Sent) => text ?? []),
    ])
    .join("");

let server: TestServer;
beforeEach(async () => {
  server = await testServer(options);
  return () => server[Symbol.asyncDispose]();
});

describe.each(Object.entries(CLIENTS))("a stream of %s that is sent again", (_name, client) => {
  it("has the same events, also after a crash and once the job has ended", async () => {
    const first = client.joined(await client.start(server, "cats"));
    const second = client.joined(await client.answer(server, "cats", first));

    for (const _ of [2, 3]) {
      expect(client.joined(await client.start(server, "cats"))).toEqual(first);
      expect(client.joined(await client.answer(server, "cats", first))).toEqual(second);
      await server.crash();
    }
    expect(textsIn(first)).toContain("On cats");
    expect(textsIn(first)).toContain("Dogs sleep.Cats sleep.");
    expect(textsIn(second)).toBe("Published.");
    expect(JSON.stringify(first)).toContain('"words":1');
    expect(JSON.stringify(second.at(-1))).toMatch(/STATE_COMPLETED|success/);
  });

  it("ends with the failure that it ended with, also once the job was tried again", async () => {
    const first = client.joined(await client.start(server, "broken"));
    const second = client.joined(await client.answer(server, "broken", first));
    const { items } = (await (await server.request("/admin/api/jobs")).json()) as { items: [{ id: string }] };
    await server.request(`/jobs/${items[0].id}/retry`, { method: "POST", json: {} });

    expect(client.joined(await client.start(server, "broken"))).toEqual(first);
    expect(client.joined(await client.answer(server, "broken", first))).toEqual(second);
    expect(JSON.stringify(second.at(-1))).toContain("The press is away");
  });

  it("joins the first one: what was before comes first, then what happens", async () => {
    const first = client.start(server, "slow");
    await expect.poll(() => gates.has("slow")).toBe(true);
    const joined = client.start(server, "slow");
    const late = client.start(server, "slow");
    gates.get("slow")!();
    gates.delete("slow");

    const events = client.joined(await first);
    expect(client.joined(await joined)).toEqual(events);
    expect(client.joined(await late)).toEqual(events);
    expect(textsIn(events)).toContain("On slow");
  });

  it("has the same events at another instance", async () => {
    const [one, other] = await startInstances([options, options]);
    const first = client.joined(await client.start(one, "dogs"));
    const second = client.joined(await client.answer(other, "dogs", first));

    expect(client.joined(await client.start(other, "dogs"))).toEqual(first);
    expect(client.joined(await client.answer(one, "dogs", first))).toEqual(second);
  });
});

it("of steps that still emit when the job asks, it has what the first one had", async () => {
  const both = defineAgent({
    name: "Writer",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [{ name: "topic" }],
        run: async ({ job }) => {
          const writing = job.step("write", async ({ emit }) => {
            emit("Dear ");
            await gate("both");
            emit("customer");
          });
          const item = await job.openCase({ id: "ask", name: "Ask" });
          const asked = item.ask({ question: "Fine?", fields });
          await Promise.all([writing, asked]);
        },
      },
    },
  });
  await using own = await testServer({ agents: [both], plugins: [agUi()] });
  const { start, joined } = CLIENTS["AG-UI"]!;
  const first = joined(await start(own, "both"));
  gates.get("both")!();
  await expect.poll(async () => (await own.request("/jobs/both")).text()).toContain("awaiting");

  const again = joined(await start(own, "both"));

  expect(textsIn(first)).toBe("Dear ");
  expect(again).toEqual(first);
});

it("the record of a step keeps what it has emitted once: not where that is its result", async () => {
  const { start } = CLIENTS["AG-UI"]!;
  await start(server, "cats");
  const lines = await server.service.get(STORE).log("Run").read("cats");
  const emitted = lines.flatMap(({ entry }) => ("emitted" in entry ? [[entry.name, entry.emitted]] : []));

  expect(emitted).toEqual([
    ["title", { run: 1 }],
    ["draft", { run: 1, chunks: ["Dogs ", { words: 1 }, "sleep."] }],
    ["draft", { run: 1, chunks: ["Cats ", { words: 2 }, "sleep."] }],
  ]);
});
