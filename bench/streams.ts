import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { JobStartContext } from "../src/index.ts";
import type { TestServer } from "../src/test-server.ts";
import { EventReader } from "../test/http/_event-reader.ts";
import type { BenchRow } from "./row.ts";

const STREAMS = Number(process.env.SVC_BENCH_STREAMS ?? 200);
const TOKENS = Number(process.env.SVC_BENCH_TOKENS ?? 200);
/** Milliseconds between two tokens of a step. */
const PAUSE = 50;

/** The built package; named so that the types need no build. */
const BUILT = new URL("../dist/", import.meta.url).href;

/** How fast tokens reach clients, and what many streams cost. */
export async function run(): Promise<BenchRow[]> {
  const { defineAgent, defineChat } = (await import(`${BUILT}index.js`)) as typeof import("../src/index.ts");
  const { a2a } = (await import(`${BUILT}a2a.js`)) as typeof import("../src/a2a.ts");
  const { agUi } = (await import(`${BUILT}agui.js`)) as typeof import("../src/agui.ts");
  const { testServer } = (await import(`${BUILT}testing.js`)) as typeof import("../src/testing.ts");
  // Each token says when it was emitted.
  const talk = async (emit: (token: string) => void): Promise<string> => {
    let text = "";
    for (let n = 0; n < TOKENS; n++) {
      await new Promise((done) => setTimeout(done, PAUSE * (0.5 + Math.random())));
      const token = `${performance.now().toFixed(3)} `;
      emit(token);
      text += token;
    }
    return text;
  };
  const options = { version: "1.0.0", maxConcurrentJobs: STREAMS };
  const methods = {
    job_start: { run: ({ job }: JobStartContext) => job.step("talk", ({ emit }) => talk(emit)) },
  };
  const talker = defineAgent({ ...options, name: "Talker", methods });
  const chatter = defineChat({
    ...{ ...options, name: "Chatter" },
    reply: ({ turn }) => turn.step("talk", ({ emit }) => talk(emit)),
  });
  await using server = await testServer({
    ...{ agents: [talker, chatter], plugins: [a2a(), agUi()] },
    maxConcurrentJobs: STREAMS,
    logLevel: "error",
  });
  const alone = await measure(server, 1);
  const many = await measure(server, STREAMS);
  return [
    row("a token reaches its client, one stream", alone.median, "ms", 20),
    row(`a token reaches its client, ${STREAMS} streams`, many.median, "ms", 20),
    row(`the slowest of 20 tokens, ${STREAMS} streams`, many.slow, "ms"),
    row(`heap that ${STREAMS} streams add, from the first tenth to the end`, many.growth, "MB", 20),
    ...(await measureClients(server)),
  ];
}

const said = (id: string) => ({
  message: { messageId: id, role: "ROLE_USER", parts: [{ text: "{}" }], contextId: id },
});
const user = (id: string) => [{ id, role: "user", content: "{}" }];

/** A request of each kind of client that streams, by an id of its own. */
const CLIENTS: Readonly<Record<string, (id: string) => readonly [path: string, body: object]>> = {
  "chat completions": (id) => [
    "/v1/chat/completions",
    { model: "chatter", stream: true, metadata: { thread_id: id }, messages: user(id) },
  ],
  responses: (conversation) => [
    "/v1/responses",
    { model: "chatter", stream: true, conversation, input: "{}" },
  ],
  "the AI SDK": (id) => [
    "/chat/chatter",
    { id, messages: [{ id, role: "user", parts: [{ type: "text", text: "{}" }] }] },
  ],
  "AG-UI, a chat": (id) => ["/ag-ui/chatter", { threadId: id, runId: id, messages: user(id) }],
  "AG-UI, a job": (id) => ["/ag-ui/talker", { threadId: id, runId: id }],
  "Agent2Agent, a chat": (id) => ["/a2a/chatter/message:stream", said(id)],
  "Agent2Agent, a job": (id) => ["/a2a/talker/message:stream", said(id)],
};

async function measureClients(server: TestServer): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const [name, toRequest] of Object.entries(CLIENTS)) {
    const [slug, delays] = [name.replaceAll(/\W+/g, "-"), [] as number[]];
    let first = Number.NaN;
    const one = async (_: unknown, n: number): Promise<void> => {
      const [path, json] = toRequest(`${slug}-${n}`);
      const response = await server.request(path, { json, headers: { "a2a-version": "1.0" } });
      let last = 0;
      for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
        // The whole answer, which comes at the end, has no new one.
        const at = Number([...text.matchAll(/\d+\.\d{3}(?= )/g)].at(-1)?.[0] ?? 0);
        if (at <= last) continue;
        last = at;
        delays.push(performance.now() - at);
        if (Number.isNaN(first) && delays.length >= (STREAMS * TOKENS) / 10) first = heap();
      }
      if (last === 0) throw new Error(`A client of ${name} got no token: ${response.status}`);
    };
    await Promise.all(Array.from({ length: STREAMS }, one));
    delays.sort((a, b) => a - b);
    const median = delays[Math.floor(delays.length / 2)]!;
    rows.push(row(`a token reaches a client of ${name}, ${STREAMS} streams`, median, "ms", 20));
    rows.push(row(`heap that ${STREAMS} streams of ${name} add`, Math.max(0, heap() - first), "MB", 20));
  }
  return rows;
}

function row(name: string, value: number, unit: string, most?: number): BenchRow {
  return { name, value, unit, ...(most !== undefined && { target: `<= ${most}`, ok: value <= most }) };
}

let rounds = 0;

async function measure(server: TestServer, count: number) {
  const round = ++rounds;
  const delays: number[] = [];
  const ids = Array.from({ length: count }, (_, n) => `talk-${round}-${n}`);
  let first = Number.NaN;
  await Promise.all(
    ids.map(async (id) => {
      await server.request("/agents/talker/jobs", { json: { job_context: { job_id: id } } });
      await using reader = new EventReader(await server.request(`/jobs/${id}/stream`));
      for (let event = await reader.next(); event; event = await reader.next()) {
        if (event.event !== "chunk") continue;
        // A late reader gets several together.
        const at = Number((event.data.chunks as string[]).at(-1));
        delays.push(performance.now() - at);
        if (Number.isNaN(first) && delays.length >= (count * TOKENS) / 10) first = heap();
      }
    }),
  );
  const growth = Math.max(0, heap() - first);
  delays.sort((a, b) => a - b);
  const at = (share: number) => delays[Math.floor(delays.length * share)]!;
  return { median: at(0.5), slow: at(0.95), growth };
}

/** Megabytes in use after a collection. */
function heap(): number {
  setFlagsFromString("--expose_gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed / 1e6;
}
