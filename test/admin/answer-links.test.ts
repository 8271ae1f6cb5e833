import { defineAgent } from "agent-control-service";
import { AUDIT, CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requirement } from "../_require.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";
import { postForm } from "./_sign-in.ts";

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Order 7" });
        await item.step("find the order", () => ({ sum: "4000 <b>", lines: "x".repeat(5000) }));
        const answer = await item.ask({
          question: "Refund order <7>?",
          fields: [
            { name: "approved", field_type: "BooleanField", required: true },
            { name: "reason", choices: ["damaged", "late"], field_type: "ChoiceField", required: true },
          ],
          ...{ deadline: "2h", onTimeout: "default", default: { approved: false, reason: "late" } },
        });
        await item.close(answer);
        return answer;
      },
    },
  },
});

interface Link {
  readonly id: string;
  readonly path: string;
  readonly url: string;
  readonly expires_at: string;
}

let passed = 0;
let count = 0;
let server: TestServer;
beforeAll(async () => {
  server = await testServer({
    agents: [asker],
    logLevel: "debug",
    clock: () => new Date(Date.now() + passed),
  });
});
afterAll(() => server[Symbol.asyncDispose]());

/** A job that asks, and a link that answers its question. */
async function ask(body: object = { name: "Mira" }): Promise<{ id: string; item: string; link: Link }> {
  const id = `job-${++count}`;
  await startJob(server.service, { id });
  await until(server.service, id, ["awaiting"]);
  const response = await server.request(`/admin/api/cases/${id}-case/links`, { json: body });
  expect(response.status).toBe(201);
  return { id, item: `${id}-case`, link: (await response.json()) as Link };
}

const headers = () => ({ "x-api-key": server.key, accept: "text/html" });
const page = (path: string, headers = {}) =>
  fetch(server.url + path, { headers: { accept: "text/html", ...headers } });
const tokenOf = ({ path }: Link) => new URL(path, server.url).searchParams.get("token")!;
const FORM = { "f.approved": "true", "f.reason": "damaged", message: "broken" };
const answer = (link: Link, fields: object = FORM) =>
  postForm(server, "/answer", { token: tokenOf(link), ...fields }, { accept: "text/html" });
const job = (id: string) => server.service.get(JOBS).get(id);
const answersOf = async (id: string) =>
  (await server.service.get(JOBS).log(id)).flatMap(({ entry }) => (entry.type === "answer" ? [entry] : []));

describe("a link answers one question for one person", () => {
  it("with a small page that requests nothing else, and under the person's name", async () => {
    const { id, link } = await ask();

    const shown = await page(link.path);
    const text = await shown.text();
    const answered = await answer(link);

    expect(link.url).toBe(server.url + link.path);
    expect(text).toContain("Refund order &lt;7&gt;?");
    expect(text).toContain("Mira");
    expect(text).toMatch(/If nobody answers .*in the next (2 h|1 h 59 min).*Approved: No, Reason: late/);
    expect(text).not.toMatch(/<script|src=|<link/);
    expect(text.length).toBeLessThan(10_000);
    expect(shown.headers.get("referrer-policy")).toBe("no-referrer");
    expect(shown.headers.get("cache-control")).toBe("no-store");
    expect(answered.status).toBe(200);
    expect(await answered.text()).toContain("Thank you, Mira");
    await until(server.service, id, ["completed"]);
    expect((await job(id)).result).toEqual({ approved: true, reason: "damaged" });
    expect(await answersOf(id)).toMatchObject([{ by: "Mira", message: "broken" }]);
    expect(server.logs.join("\n")).not.toContain(tokenOf(link));
    const again = await answer(link, { ...FORM, "f.approved": "false" });
    expect([again.status, await again.text()]).toEqual([
      409,
      expect.stringContaining("You answered it, Mira."),
    ]);
    expect(await answersOf(id)).toHaveLength(1);
  });

  it("with what the steps of the case found only if the link was made so, and not much of it", async () => {
    const { item, link } = await ask({ name: "Mira", evidence: true });
    const without = await ask();
    const made = await postForm(
      server,
      `/admin/cases/${item}/links`,
      { name: "Ada", evidence: "1" },
      headers(),
    );
    const byForm = /value="[^"]*(\/answer[^"]+)"/.exec(await made.text())![1]!;

    const texts = await Promise.all(
      [link.path, byForm, without.link.path].map(async (path) => (await page(path)).text()),
    );

    expect(texts.map((text) => text.includes("4000 &lt;b&gt;"))).toEqual([true, true, false]);
    expect(texts.map((text) => text.includes("find the order"))).toEqual([true, true, false]);
    for (const text of texts) expect(text.length).toBeLessThan(10_000);
  });

  it("not by being opened, as scanners of mail do", async () => {
    const { id, link } = await ask();

    for (const method of ["GET", "HEAD", "GET"]) await fetch(server.url + link.path, { method });

    expect((await job(id)).status).toBe("awaiting");
    expect((await answer(link)).status).toBe(200);
  });

  it("once, where it is sent several times at the same moment", async () => {
    const { id, link } = await ask();

    const statuses = await Promise.all([1, 2, 3, 4].map(async () => (await answer(link)).status));

    expect(statuses.sort()).toEqual([200, 409, 409, 409]);
    await until(server.service, id, ["completed"]);
    expect(await answersOf(id)).toHaveLength(1);
  });

  it("only with a complete answer", async () => {
    const { id, link } = await ask();

    const incomplete = await answer(link, { "f.approved": "true", message: "kept" });
    const text = await incomplete.text();

    expect(incomplete.status).toBe(422);
    expect(text).toContain('class="problem"');
    expect(text).toContain('value="kept"');
    expect((await job(id)).status).toBe("awaiting");
  });
});

describe("a link that answers a question ends", () => {
  const GONE = /This question is no longer open/;

  it.each(["maybe", "1", "on", "TRUE"])("not with %j as a yes or no", async (approved) => {
    const { id, link } = await ask();

    const refused = await answer(link, { ...FORM, "f.approved": approved });

    expect(refused.status).toBe(422);
    expect(await refused.text()).toContain('class="problem"');
    expect((await job(id)).status).toBe("awaiting");
  });

  it("when the question is answered by somebody else", async () => {
    const { id, item, link } = await ask();
    await server.request(`/admin/api/cases/${item}/answer`, {
      json: { answer: { approved: false, reason: "late" }, message: null },
    });

    const [shown, answered] = [await page(link.path), await answer(link)];

    expect([shown.status, answered.status]).toEqual([409, 409]);
    expect(await shown.text()).toMatch(GONE);
    expect(await answersOf(id)).toMatchObject([{ by: "api-key" }]);
  });

  it("when a job starts over and asks again with the same ids", async () => {
    const { id, link } = await ask();
    await answer(link);
    await until(server.service, id, ["completed"]);
    await server.request(`/admin/api/jobs/${id}/status`, { json: { status: "failed" } });
    await server.request(`/admin/api/jobs/${id}/retry`, { json: { from: "start" } });
    await until(server.service, id, ["awaiting"]);

    const again = await answer(link);

    expect([again.status, await again.text()]).toEqual([409, expect.stringMatching(GONE)]);
    expect((await job(id)).status).toBe("awaiting");
  });

  it("also where the question is replaced after the page was read", async () => {
    const { id, item } = await ask();
    const question = (await server.service.get(CASES).summary(item)).question!;
    const request = { answer: { approved: true, reason: "late" }, message: null, question_id: question.id };
    const asked_at = "2026-01-01T00:00:00.000Z";

    const late = server.service.get(RUNNER).answer(id, item, { ...request, asked_at }, "Mira");

    await expect(late).rejects.toThrow("another question is open");
  });

  it("when it is revoked, and it is listed until then", async () => {
    const { item, link } = await ask();
    const links = `/admin/api/cases/${item}/links`;
    const listed = await (await server.request(links)).json();

    const revoked = await server.request(`${links}/${link.id}`, { method: "DELETE" });

    expect(listed).toMatchObject({ items: [{ id: link.id, name: "Mira", by: "api-key" }] });
    expect(JSON.stringify(listed)).not.toContain(tokenOf(link));
    expect(revoked.status).toBe(200);
    expect((await answer(link)).status).toBe(404);
    expect(await (await server.request(links)).json()).toEqual({ items: [] });
    expect((await server.request(`${links}/${link.id}`, { method: "DELETE" })).status).toBe(404);
  });

  it("when its own time is over", async () => {
    const { link } = await ask({ name: "Mira", expires_in: "1h" });
    const before = (await page(link.path)).status;
    passed += 3_600_001;

    expect([before, (await page(link.path)).status, (await answer(link)).status]).toEqual([200, 404, 404]);
  });
});

it.each([
  [{}, "name"],
  [{ name: " \u0007 " }, "name"],
  [{ name: "Mira", expires_in: "soon" }, "expires_in"],
  [{ name: "Mira", expires_in: "91d" }, "expires_in"],
])("a link for %j is refused with the cause", async (body, cause) => {
  const { item } = await ask();

  const response = await server.request(`/admin/api/cases/${item}/links`, { json: body });

  expect([response.status, ((await response.json()) as { detail: string }).detail]).toEqual([
    422,
    expect.stringContaining(cause),
  ]);
});

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

chromium.it(
  "a person answers on a phone without script, with a link that was made in the inbox",
  async () => {
    const { id, item } = await ask();
    const made = await postForm(
      server,
      `/admin/cases/${item}/links`,
      { name: "Bo", expires_in: "1d" },
      { "x-api-key": server.key, accept: "text/html" },
    );
    const url = /value="(http[^"]+token=[^"]+)"/.exec(await made.text())![1]!;
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP, {
      javaScriptEnabled: false,
    });

    await page.goto(url);
    await page.getByLabel("Yes").check();
    await page.getByLabel("damaged").check();
    await page.getByRole("button", { name: "Answer" }).click();
    await page.getByText("Thank you, Bo").waitFor();

    await until(server.service, id, ["completed"]);
    expect(await answersOf(id)).toMatchObject([{ by: "Bo" }]);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

it("a right link works beside any number of wrong ones, which are refused for a while", async () => {
  const { id, link } = await ask();
  const wrong = async () => (await page("/answer?token=wrong")).status;
  const statuses: number[] = [];
  for (let at = 0; at < 12; at++) statuses.push(await wrong());
  const senders = Array.from({ length: 50 }, async () => {
    const got: number[] = [];
    for (let at = 0; at < 20; at++) got.push(await wrong());
    return got;
  });
  const flood = (await Promise.all(senders)).flat();

  const shown = await page(link.path);
  const answered = await answer(link);
  const again = await page("/answer?token=wrong");
  passed += 61_000;

  expect(statuses.slice(0, 5)).toEqual([404, 404, 404, 404, 404]);
  expect(statuses.at(-1)).toBe(429);
  expect(new Set(flood)).toEqual(new Set([429]));
  expect([shown.status, answered.status]).toEqual([200, 200]);
  await until(server.service, id, ["completed"]);
  expect([again.status, Number(again.headers.get("retry-after")) > 0]).toEqual([429, true]);
  expect(await wrong()).toBe(404);
});

it("the audit log tells an answer by link from one by browser token", async () => {
  const byLink = await ask();
  await answer(byLink.link);
  const { id, item } = await ask();
  const made = await server.request(`/jobs/${id}/tokens`, { json: { name: "Mira", scopes: ["answer"] } });
  const { token } = (await made.json()) as { token: string };
  const answered = await fetch(`${server.url}/jobs/${id}/cases/${item}/update`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ answer: { approved: true, reason: "late" } }),
  });

  const { items } = await server.service.get(AUDIT).list({ action: "case.answer" });

  expect(answered.status).toBe(200);
  const kindOf = (target: string) => items.find((line) => line.target?.id === target)?.who;
  expect(kindOf(byLink.item)).toEqual({ kind: "link", name: "Mira" });
  expect(kindOf(item)).toEqual({ kind: "token", name: "Mira" });
});
