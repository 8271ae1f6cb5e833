// @long
import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { client } from "agent-control-service/client";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

/** Jobs: an export reads more than once. */
const ALL = 420;
const LIMIT = 20;

const worker = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ n: v.number() }),
        run: async ({ job, fields: { n } }) => {
          const item = await job.openCase({ id: `case-${n}`, name: `Case ${n}` });
          await job.step("file", ({ file }) => file(`${n}.csv`, `n\n${n}\n`));
          await job.waitFor("end", { where: { n } });
          await item.close();
        },
      },
    },
  });

const HOLDERS = [
  { name: "acme", role: "viewer", workspace: "acme" },
  { name: "seen", role: "viewer", agents: ["seen"] },
  { name: "shop", role: "starter" },
] as const;
type Reader = (typeof HOLDERS)[number]["name"] | "owner";
const READERS: readonly Reader[] = ["owner", ...HOLDERS.map(({ name }) => name)];
/** What each sees of the jobs, by their numbers. */
const SEES: Readonly<Record<Reader, (n: number) => boolean>> = {
  owner: () => true,
  acme: (n) => n % 3 === 0,
  seen: (n) => n % 2 === 0,
  shop: (n) => n % 5 === 1 && n % 3 !== 0,
};

let server: TestServer;
const keyOf = (reader: Reader) => (reader === "owner" ? server.key : `svck_test_${reader}_${"k".repeat(43)}`);
const numbersOf = (reader: Reader) => Array.from({ length: ALL }, (_, n) => n).filter(SEES[reader]);

beforeAll(async () => {
  const keys = HOLDERS.map((one) => ({
    ...one,
    sha256: hash("sha256", `svck_test_${one.name}_${"k".repeat(43)}`, "hex"),
  }));
  const agents = [worker("Seen"), worker("Other")];
  server = await testServer({ agents, access: { keys }, suspendAfter: 0, maxQueuedJobs: ALL });
  for (let n = 0; n < ALL; n++) {
    const isAcme = SEES.acme(n);
    const started = await server.request(`/agents/${n % 2 === 0 ? "seen" : "other"}/jobs`, {
      key: keyOf(SEES.shop(n) ? "shop" : "owner"),
      json: {
        job_context: { job_id: `job-${n}`, ...(isAcme && { workspace_id: "acme" }) },
        job_fields: { n },
      },
    });
    if (!started.ok) throw new Error(await started.text());
  }
  const isWaiting = { where: { waits_for: "event" }, limit: 0 };
  const wait = { timeout: 240_000, interval: 20 };
  await vi.waitUntil(async () => (await server.service.get(JOBS).list(isWaiting)).total === ALL, wait);
  left = Array.from({ length: ALL }, (_, n) => (n * 37) % ALL);
}, 240_000);
afterAll(() => server[Symbol.asyncDispose]());

/** The jobs that have not ended, in the order in which they will. */
let left: number[] = [];

/** Ends a job, and waits until it has. */
async function endOne(): Promise<void> {
  const n = left.shift();
  if (n === undefined) throw new Error("No job is left that could end");
  await server.sendEvent("end", { n });
  const jobs = server.service.get(JOBS);
  await expect.poll(async () => (await jobs.get(`job-${n}`)).status, { interval: 2 }).toBe("completed");
}

interface ListPage {
  readonly ids: readonly string[];
  readonly total?: number;
  readonly next: string | undefined;
}
type ReadPage = (reader: Reader, after: string | undefined) => Promise<ListPage>;

/** A list whose pages are announced in headers. */
const withHeaders =
  (path: string, idOf: (item: Record<string, unknown>) => unknown): ReadPage =>
  async (reader, after) => {
    const query = new URLSearchParams({ limit: String(LIMIT), ...(after && { after }) });
    const response = await server.request(`${path}?${query}`, { key: keyOf(reader) });
    const items = (await response.json()) as Record<string, unknown>[];
    const total = response.headers.get("x-total-count");
    return {
      ids: items.map((item) => String(idOf(item))),
      ...(total !== null && { total: Number(total) }),
      next: response.headers.get("x-next-cursor") ?? undefined,
    };
  };

/** A list of the admin API. */
const withCursors =
  (path: string): ReadPage =>
  async (reader, after) => {
    const query = new URLSearchParams({ limit: String(LIMIT), ...(after && { after }) });
    const response = await server.request(`${path}?${query}`, { key: keyOf(reader) });
    const page = (await response.json()) as {
      items: { id: string }[];
      total: number;
      next_cursor: string | null;
    };
    return { ids: page.items.map(({ id }) => id), total: page.total, next: page.next_cursor ?? undefined };
  };

const LISTS: Readonly<
  Record<
    string,
    { readonly read: ReadPage; readonly has?: (n: number) => boolean; readonly idOf: (n: number) => string }
  >
> = {
  "/jobs": { read: withHeaders("/jobs", ({ job_id }) => job_id), idOf: (n) => `job-${n}` },
  "/agents/seen/jobs": {
    read: withHeaders("/agents/seen/jobs", ({ job_id }) => job_id),
    ...{ has: (n) => n % 2 === 0, idOf: (n) => `job-${n}` },
  },
  "/files": { read: withHeaders("/files", ({ job_id }) => job_id), idOf: (n) => `job-${n}` },
  "/admin/api/jobs": { read: withCursors("/admin/api/jobs"), idOf: (n) => `job-${n}` },
  "/admin/api/cases": { read: withCursors("/admin/api/cases"), idOf: (n) => `case-${n}` },
  "list of the typed client": {
    read: async (reader, after) => {
      const service = client(server.url, keyOf(reader));
      const { items, total, next } = await service.list(undefined, { limit: LIMIT, ...(after && { after }) });
      return { ids: items.map(({ job_id }) => job_id), total, next };
    },
    idOf: (n) => `job-${n}`,
  },
};

describe.each(READERS)("read to its end by %s while jobs end", (reader) => {
  it.each(Object.entries(LISTS))("%s has as many as it says, each once", async (_name, list) => {
    const { read, has = () => true, idOf } = list;
    const expected = numbersOf(reader).filter(has).map(idOf);
    const found: string[] = [];
    const totals = new Set<number>();
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page: ListPage = await read(reader, after);
      found.push(...page.ids);
      if (page.total !== undefined) totals.add(page.total);
      after = page.next;
      await endOne();
    }
    expect(found.toSorted()).toEqual(expected.toSorted());
    expect([...totals]).toEqual(list.read === LISTS["/files"]!.read ? [] : [expected.length]);
  });

  it("the list of those that run has each that runs until its end once, and says how many are left", async () => {
    const found: string[] = [];
    for (let after = ""; ; ) {
      const query = new URLSearchParams({
        status: "in_progress",
        limit: String(LIMIT),
        ...(after && { after }),
      });
      const response = await server.request(`/jobs?${query}`, { key: keyOf(reader) });
      const items = (await response.json()) as { job_id: string }[];
      const open = left.filter(SEES[reader]).length;
      expect(Number(response.headers.get("x-total-count"))).toBe(open);
      found.push(...items.map(({ job_id }) => job_id));
      after = response.headers.get("x-next-cursor") ?? "";
      if (after === "") break;
      await endOne();
    }
    expect(new Set(found).size).toBe(found.length);
    expect(found).toEqual(expect.arrayContaining(left.filter(SEES[reader]).map((n) => `job-${n}`)));
  });

  it.each(["jobs", "cases"])("an export of %s has a line for each", async (kind) => {
    const response = await server.request(`/admin/api/${kind}/export`, { key: keyOf(reader) });
    const stream = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let lines = 0; ; ) {
      const { done, value = "" } = await stream.read();
      if (done) break;
      text += value;
      lines += value.split("\r\n").length - 1;
      if (lines % 50 === 1) await endOne();
    }
    const ids = text
      .split("\r\n")
      .slice(1, -1)
      .map((line) => line.split(",")[0]!);
    expect(ids.toSorted()).toEqual(
      numbersOf(reader)
        .map((n) => (kind === "jobs" ? `job-${n}` : `case-${n}`))
        .toSorted(),
    );
  });
});
