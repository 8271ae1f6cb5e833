import { defineChat, type JobStartContext } from "agent-control-service";
import { STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "../runs/_agent.ts";
import { jobContext, until } from "../runs/_jobs.ts";
import { type TappedStore, tappedStore } from "../store/tapped-store.ts";

const yes = [{ name: "approved", field_type: "BooleanField" as const, required: true }];

/** Its job has the id of what it does; with `changed` code, the record of a job that was held fits no longer. */
const handler =
  (changed: boolean) =>
  async ({ job }: JobStartContext) => {
    if (job.id === "fails") throw new Error("no");
    if (job.id === "spends") await job.step("buy", () => 1, { cost: 2 });
    if (job.id === "held") await job.step(changed ? "new" : "old", () => 1);
    const item = await job.openCase({ id: `case-${job.id}`, name: "A case" });
    await item.ask({ question: "Is it so?", fields: yes });
    await item.close();
    return "done";
  };
const worker = (changed: boolean, version: string) => agentOf(handler(changed), { version });
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `said ${message}` });

const start = async (
  server: TestServer,
  id: string,
  status: string,
  job_instructions: object | null = null,
) => {
  const context = { ...jobContext(id), job_instructions };
  await server.request("/agents/worker/jobs", { json: { job_context: context, job_fields: {} } });
  await until(server.service, id, [status]);
  return undefined;
};
const asks = (server: TestServer) => start(server, "asks", "awaiting");

interface Keyed {
  readonly path: string;
  readonly json?: unknown;
  before?(server: TestServer, tapped: TappedStore): Promise<TestServer | undefined>;
  /** What the request writes. */
  readonly writes: string;
}

const both = (path: string, keyed: Omit<Keyed, "path">): Keyed[] => [
  { path, ...keyed },
  { path: `/admin/api${path}`, ...keyed },
];

const REQUESTS: readonly Keyed[] = [
  ...both("/jobs/fails/retry", {
    json: { from: "start" },
    before: (server) => start(server, "fails", "failed"),
    writes: "change Job",
  }),
  ...both("/jobs/spends/resume", {
    json: { job_instructions: { max_cost: 3 } },
    before: (server) => start(server, "spends", "failed", { max_cost: 1 }),
    writes: "change Job",
  }),
  ...both("/jobs/held/continue", {
    async before(server, tapped) {
      await start(server, "held", "awaiting");
      await server[Symbol.asyncDispose]();
      const next = await open(tapped, true);
      await expect
        .poll(async () => (await next.service.get(STORE).table("Job").get("held"))?.held)
        .not.toBeNull();
      return next;
    },
    writes: "change Job",
  }),
  ...both("/jobs/asks/move", { json: { version: "1.0.0" }, before: asks, writes: "change Job" }),
  {
    path: "/jobs/asks/cases/case-asks/update",
    json: { answer: { approved: true } },
    before: asks,
    writes: "change Case",
  },
  {
    path: "/admin/api/cases/case-asks/answer",
    json: { answer: { approved: true } },
    before: asks,
    writes: "change Case",
  },
  {
    path: "/admin/api/cases/case-asks/links",
    json: { name: "Mira" },
    before: asks,
    writes: "insert AnswerLink",
  },
  {
    path: "/admin/api/cases/case-asks/status",
    json: { status: "completed" },
    before: asks,
    writes: "change Case",
  },
  { path: "/admin/api/jobs/asks/status", json: { status: "completed" }, before: asks, writes: "change Job" },
  {
    path: "/v1/chat/completions",
    json: {
      model: "talker",
      messages: [{ role: "user", content: "Again" }],
      metadata: { thread_id: "thread" },
    },
    async before(server) {
      const messages = [{ role: "user", content: "Hello" }];
      const metadata = { thread_id: "thread" };
      await server.request("/v1/chat/completions", { json: { model: "talker", messages, metadata } });
      return undefined;
    },
    writes: "insert ReceivedEvent",
  },
];

const open = ({ open: store }: TappedStore, changed = false) =>
  testServer({
    agents: [worker(changed, "1.0.0"), worker(changed, changed ? "2.0.1" : "2.0.0"), talker],
    store,
    apiKey: "a-key-of-the-test-0123456789",
  });

it.each(REQUESTS)(
  "the key of a request is stored with what it does, or neither: POST $path",
  async (request) => {
    const { path, json, before, writes } = request;
    const tapped = tappedStore();
    const first = await open(tapped);
    const server = (await before?.(first, tapped)) || first;
    await using _ = server;
    const send = () =>
      server.request(path, {
        ...{ method: "POST", ...(json !== undefined && { json }) },
        headers: { "idempotency-key": "once", authorization: `Bearer ${server.key}` },
      });
    const keys = async () =>
      (await server.service.get(STORE).table("KeyedRequest").list({ limit: 10 })).total;
    const known = await keys();

    tapped.refuse = (write) => {
      if (write === writes) throw new Error("the disk is full");
    };
    const refused = await send();
    tapped.refuse = undefined;

    expect(refused.status).toBe(500);
    expect(await keys()).toBe(known);

    tapped.committed.length = 0;
    const done = await send();

    expect(done.status, await done.text()).toBeLessThan(300);
    const withKey = () => tapped.committed.filter((one) => one.includes("insert KeyedRequest"));
    await expect.poll(withKey).toEqual([expect.arrayContaining([writes])]);

    const again = await send();

    expect([200, 201, 202, 409]).toContain(again.status);
    expect(withKey()).toHaveLength(1);
  },
);
