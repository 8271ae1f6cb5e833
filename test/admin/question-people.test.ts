import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { startJob, until } from "../runs/_jobs.ts";
import { postForm, signIn } from "./_sign-in.ts";

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const ask = async (at: number) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Order ${at}` });
          return item.ask({
            question: `Refund order ${at}?`,
            fields: [{ name: "approved", field_type: "BooleanField", required: true }],
            ...{ assignTo: at === 1 ? "finance" : "Ada", remind: "4h", approvers: 2 },
            escalate: { after: "1d", to: "lead" },
          });
        };
        return Promise.all([ask(1), ask(2)]);
      },
    },
  },
});

let server: TestServer;
let ada: string;
beforeAll(async () => {
  server = await testServer({ agents: [asker] });
  await startJob(server.service, { id: "j" });
  await until(server.service, "j", ["awaiting"]);
  await vi.waitUntil(async () => (await open("")).length === 2, { timeout: 60_000 });
  ada = await signIn(server, "Ada");
});
afterAll(() => server[Symbol.asyncDispose]());

async function open(query: string, headers = {}): Promise<string[]> {
  const response = await fetch(`${server.url}/admin/api/inbox?${query}`, {
    headers: { "x-api-key": server.key, ...headers },
  });
  if (!response.ok) throw new Error(await response.text());
  return ((await response.json()) as { items: { case_id: string }[] }).items
    .map(({ case_id }) => case_id)
    .sort();
}

const page = async (path: string) =>
  (await fetch(server.url + path, { headers: { cookie: ada, accept: "text/html" } })).text();
const own = () => fetch(`${server.url}/admin/api/inbox?mine=1`, { headers: { cookie: ada } });

it("an open inbox reads again only when each question was asked, and its tabs say how many there are", async () => {
  const html = await page("/admin/inbox");
  const [, path = ""] = /data-inbox="([^"]+)"/.exec(html) ?? [];
  const response = await server.request(path.replaceAll("&amp;", "&"));
  const { items, total } = (await response.json()) as { items: object[]; total: number };
  const entries = ["j-1", "j-2"].map((case_id) => ({ case_id, asked_at: expect.any(String) }));
  expect(total).toBe(2);
  expect(items).toHaveLength(2);
  expect(items).toEqual(expect.arrayContaining(entries));
  const tabs = html.matchAll(/<bdi>([^<]+)<\/bdi> <span class="count">(\d+)</g);
  expect([...tabs].map(([, label, count]) => `${label} ${count}`)).toEqual(["All 2", "Mine 1", "finance 1"]);
});

it("questions are filtered by whom they are assigned to, and by one's own name", async () => {
  const mine = (await (await own()).json()) as { items: { case_id: string }[] };
  const list = await page("/admin/inbox");

  expect(await open("assigned_to=finance")).toEqual(["j-1"]);
  expect(mine.items.map(({ case_id }) => case_id)).toEqual(["j-2"]);
  expect(list).toMatch(/assigned_to=Ada"[^>]*><bdi>Mine<\/bdi> <span class="count">1</);
  expect(list).toMatch(/assigned_to=finance"[^>]*><bdi>finance</);
  expect(list).toContain("2 people must give the same answer.");
  expect(list).toMatch(/A reminder is sent <time[^>]*>in 4 h</);
  await expect(open("mine=1")).rejects.toThrow("You have no name here");
});

it("a question is assigned by form and in the API, and the history says by whom", async () => {
  const sent = await postForm(server, "/admin/cases/j-1/assign", { to: " Bo " }, { cookie: ada });
  const byForm = await open("assigned_to=Bo");
  const response = await server.request("/admin/api/cases/j-1/assign", { json: { to: null } });

  expect([sent.status, sent.headers.get("location")]).toEqual([303, "/admin/inbox?question=j-1"]);
  expect(byForm).toEqual(["j-1"]);
  expect(await response.json()).toEqual({ case_id: "j-1", assigned_to: null });
  expect(await open("assigned_to=Bo")).toEqual([]);
  const { updates } = (await (await server.request("/admin/api/cases/j-1")).json()) as { updates: object[] };
  expect(updates.slice(-2)).toMatchObject([
    { name: "assigned", payload: { assigned: { to: "Bo", by: expect.stringContaining("Ada") } } },
    { name: "assigned", payload: { assigned: { to: null, by: "api-key" } } },
  ]);
  expect((await server.request("/admin/api/cases/none/assign", { json: { to: null } })).status).toBe(404);
});

it("the first of two answers is shown with its person, and the second one ends the question", async () => {
  const json = { answer: { approved: true }, message: "seen" };
  const first = await server.request("/admin/api/cases/j-2/answer", { json });
  const shown = await page("/admin/inbox?question=j-2");
  const again = await server.request("/admin/api/cases/j-2/answer", { json });
  const { path } = (await (
    await server.request("/admin/api/cases/j-2/links", { json: { name: "Mira" } })
  ).json()) as { path: string };
  const token = new URL(path, server.url).searchParams.get("token")!;
  const second = await postForm(server, "/answer", { token, "f.approved": "true" });

  expect(await first.json()).toMatchObject({
    status: "awaiting",
    message: expect.stringContaining("1 of 2 people agree"),
  });
  expect(shown).toMatch(/api-key<\/bdi><\/b> answered <b><bdi>Approved: Yes<\/bdi><\/b>/);
  expect(again.status).toBe(409);
  expect(await second.text()).toContain("Your answer was recorded.");
  await expect.poll(() => open("")).toEqual(["j-1"]);
  expect(await page("/admin/cases/j-2")).toContain("api-key, Mira");
});
