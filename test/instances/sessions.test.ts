// @area core
import { defineAgent } from "agent-control-service";
import { SIGN_IN_LINK } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { AUDIT, STORE } from "../../src/core/service/tokens.ts";
import { cookieOf, postForm, signIn } from "../admin/_sign-in.ts";
import { startInstances } from "./_instances.ts";

const get = (server: TestServer, cookie: string, path = "/admin/api/stats") =>
  fetch(server.url + path, { headers: { cookie } });
const tokenOf = async (server: TestServer) =>
  new URL((await server.service.get(SIGN_IN_LINK).create(server.url)).url).searchParams.get("token")!;

it("a session is valid on every instance, and ends on every one", async () => {
  const [one, other] = await startInstances([{}, {}]);
  const cookie = await signIn(one, "Ada");
  const before = (await Promise.all([get(one, cookie), get(other, cookie)])).map(({ status }) => status);
  const sessions = await get(other, cookie, "/admin/api/sessions");
  const stream = await get(other, cookie, "/admin/api/live");
  const reader = stream.body!.getReader();

  const ended = await postForm(one, "/admin/session/end", {}, { cookie });

  expect(before).toEqual([200, 200]);
  expect(await sessions.json()).toMatchObject({ items: [{ name: "Ada", current: true }] });
  expect(ended.status).toBe(303);
  for (const server of [one, other]) expect((await get(server, cookie)).status).toBe(401);
  // The stream, too, which was open on the other one.
  while (!(await reader.read()).done);
});

it("a session that is ended on several instances at the same time is noted once", async () => {
  const [one, other] = await startInstances([{}, {}]);
  await signIn(one);

  const answers = await Promise.all(
    [one, other].map((server) => server.request("/admin/api/sessions", { method: "DELETE" })),
  );

  const ended = await Promise.all(answers.map((answer) => answer.json() as Promise<{ ended: number }>));
  expect(ended.map((each) => each.ended).sort()).toEqual([0, 1]);
  expect((await one.service.get(AUDIT).list({ action: "session.end" })).items).toHaveLength(1);
});

it("use on one instance keeps a session from ending on another", async () => {
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  const [one, other] = await startInstances([{ clock }, { clock }]);
  const cookie = await signIn(one);
  const statuses = [];

  for (const minutes of [20, 20, 20, 40]) {
    ahead += minutes * 60_000;
    statuses.push((await get(statuses.length % 2 ? one : other, cookie)).status);
  }

  expect(statuses).toEqual([200, 200, 200, 401]);
});

it("a sign-in link works on any instance, and once", async () => {
  const [one, other] = await startInstances([{}, {}]);
  const token = await tokenOf(one);
  const page = await fetch(`${other.url}/admin/sign-in?token=${token}`);

  const used = await Promise.all(
    [one, other, one, other].map((server) => postForm(server, "/admin/sign-in", { token })),
  );

  expect(page.status).toBe(200);
  expect(used.map(({ status }) => status).sort()).toEqual([303, 401, 401, 401]);
  const cookie = cookieOf(used.find(({ status }) => status === 303)!);
  expect((await get(other, cookie)).status).toBe(200);
});

it("a sign-in link is stored as a hash, expires on every instance, and is removed then", async () => {
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  const [one, other] = await startInstances([{ clock }, { clock }]);
  const token = await tokenOf(one);
  const table = one.service.get(STORE).table("SignInLink");
  const stored = JSON.stringify(await table.list());

  ahead += 6 * 60_000;
  const late = await postForm(other, "/admin/sign-in", { token });
  await tokenOf(other);

  expect(stored).toContain("until");
  expect(stored).not.toContain(token);
  expect(late.status).toBe(401);
  expect(await table.ids()).toHaveLength(1);
});

it("signing out everywhere invalidates the links of all instances", async () => {
  const [one, other] = await startInstances([{}, {}]);
  const token = await tokenOf(one);

  await other.request("/admin/api/sessions", { method: "DELETE" });

  expect((await postForm(one, "/admin/sign-in", { token })).status).toBe(401);
});

it("a link that answers a question works on any instance, and once", async () => {
  const asker = defineAgent({
    name: "Asker",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const item = await job.openCase({ id: "c", name: "Order 7" });
          return item.ask({ question: "Refund?", fields: [{ name: "by", required: true }] });
        },
      },
    },
  });
  const [one, other] = await startInstances([{ agents: [asker] }, { agents: [asker] }]);
  await one.request("/agents/asker/jobs", { json: { job_context: { job_id: "j" } } });
  const status = async () => ((await (await other.request("/admin/api/jobs/j")).json()) as StoredJob).status;
  await expect.poll(status).toBe("awaiting");
  const link = (await (
    await other.request("/admin/api/cases/c/links", { json: { name: "Mira" } })
  ).json()) as {
    path: string;
  };
  const token = new URL(link.path, one.url).searchParams.get("token")!;

  const answers = await Promise.all(
    [one, other, one, other].map((server, at) => postForm(server, "/answer", { token, "f.by": String(at) })),
  );

  expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409]);
  await expect.poll(status).toBe("completed");
  const by = answers.findIndex((answer) => answer.status === 200);
  const { result } = (await (await one.request("/admin/api/jobs/j")).json()) as StoredJob;
  expect(result).toEqual({ by: String(by) });
});
