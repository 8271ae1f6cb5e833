import { defineAgent } from "agent-control-service";
import { AUDIT, CASES, JOBS, REJECTED_KEYS, RETENTION, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import type { AuditAction, AuditEntry } from "../../src/core/models/audit-entry.ts";
import { postForm, signIn } from "../admin/_sign-in.ts";
import { startJob, until } from "../runs/_jobs.ts";

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
        await item.close(await item.ask({ question: "Continue?", fields: [{ name: "text" }] }));
        return "done";
      },
    },
  },
});

const begin = () => testServer({ agents: [asker] });

async function ask(server: TestServer, id: string): Promise<void> {
  await startJob(server.service, { id });
  await until(server.service, id, ["awaiting"]);
}

async function linesOf(server: TestServer, action: AuditAction): Promise<Partial<AuditEntry>[]> {
  const { items } = await server.service.get(AUDIT).list({ action, limit: 100 });
  return items.map(({ who, address, target, before, after }) => ({ who, address, target, before, after }));
}

const KEY = { who: { kind: "key" }, address: "127.0.0.1" };
const ADA = {
  who: { kind: "session", session: expect.stringMatching(/^[\w-]{6}$/), says: "Ada" },
  address: "127.0.0.1",
};

describe("the audit log has", () => {
  it("the start and the end of a session, with the name marked as typed", async () => {
    await using server = await begin();

    const cookie = await signIn(server, "Ada");
    await postForm(server, "/admin/session/end", {}, { cookie });

    expect(await linesOf(server, "session.begin")).toMatchObject([{ ...ADA, after: { with: "key" } }]);
    expect(await linesOf(server, "session.end")).toMatchObject([ADA]);
  });

  it("one-time links, when they are created and when they are used to sign in", async () => {
    await using server = await begin();

    const link = (await (await server.request("/admin/api/sign-in-links", { method: "POST" })).json()) as {
      path: string;
    };
    const token = new URL(link.path, server.url).searchParams.get("token") ?? "";
    await postForm(server, "/admin/sign-in", { token });

    expect(await linesOf(server, "session.link")).toMatchObject([KEY]);
    expect(await linesOf(server, "session.begin")).toMatchObject([
      { who: { kind: "session" }, address: "127.0.0.1", after: { with: "link" } },
    ]);
    expect(JSON.stringify(await server.service.get(AUDIT).list())).not.toContain(token);
  });

  it("wrong keys, in the header and in the form, by address and not individually", async () => {
    await using server = await begin();
    for (let n = 0; n < 8; n++) await server.request("/agents", { key: `wrong-key-${n}` });
    for (let n = 0; n < 5; n++)
      await postForm(server, "/admin/session", { key: `wrong-key-${n}`, name: "Ada" });

    await server.service.get(REJECTED_KEYS).flush();

    const [line, ...more] = await linesOf(server, "key.locked_out");
    expect(more).toEqual([]);
    expect(line).toMatchObject({ who: { kind: "nobody" }, address: "127.0.0.1" });
    const { wrong_keys, refused_unseen } = line!.after as Record<string, number>;
    expect(wrong_keys! + refused_unseen!).toBe(13);
    expect(JSON.stringify(await server.service.get(AUDIT).list())).not.toContain("wrong-key-");
  });

  it("status changes of jobs and cases, by key and by session", async () => {
    await using server = await begin();
    await ask(server, "a");
    const cookie = await signIn(server, "Ada");

    await server.request("/admin/api/cases/a-case/status", { json: { status: "stopped" } });
    await server.request("/admin/api/jobs/a/status", { json: { status: "completed" } });
    await postForm(server, "/admin/jobs/a/status", { status: "stopped" }, { cookie });
    await server.request("/admin/api/jobs/none/status", { json: { status: "failed" } });

    expect(await linesOf(server, "case.status")).toMatchObject([
      { ...KEY, target: { kind: "case", id: "a-case" }, before: "awaiting", after: "stopped" },
    ]);
    expect(await linesOf(server, "job.status")).toMatchObject([
      { ...ADA, target: { kind: "job", id: "a" }, before: "completed", after: "stopped" },
      { ...KEY, target: { kind: "job", id: "a" }, after: "completed" },
    ]);
  });

  it("removals of jobs and cases, after these are gone", async () => {
    await using server = await begin();
    for (const id of ["a", "b"]) await ask(server, id);

    await server.request("/admin/api/cases/a-case", { method: "DELETE" });
    await server.request("/admin/api/cases/a-case/restore", { method: "POST" });
    await server.request("/admin/api/cases/a-case?permanent=true", { method: "DELETE" });
    await server.request("/admin/api/jobs/b", { method: "DELETE" });

    expect(await server.service.get(JOBS).find("b")).toBeUndefined();
    expect(await server.service.get(CASES).find("a-case")).toBeUndefined();
    expect(await linesOf(server, "case.delete")).toMatchObject([
      { ...KEY, target: { kind: "case", id: "a-case" }, before: { status: "awaiting", job: "a" } },
    ]);
    expect(await linesOf(server, "case.restore")).toMatchObject([
      { ...KEY, target: { kind: "case", id: "a-case" }, after: "cancelled" },
    ]);
    expect(await linesOf(server, "case.erase")).toMatchObject([
      { ...KEY, target: { kind: "case", id: "a-case" }, before: { status: "cancelled", job: "a" } },
    ]);
    expect(await linesOf(server, "job.delete")).toMatchObject([
      { ...KEY, target: { kind: "job", id: "b" }, before: { status: "awaiting", agent: "asker", cases: 1 } },
    ]);
  });

  it("stops, answers, retries", async () => {
    await using server = await begin();
    for (const id of ["a", "b"]) await ask(server, id);

    await server.request("/admin/api/cases/a-case/answer", {
      json: { answer: { text: "a private answer" } },
    });
    await server.request("/admin/api/jobs/b/stop", { method: "POST" });
    await until(server.service, "b");
    await server.request("/admin/api/jobs/b/retry", { json: { from: "start" } });

    expect(await linesOf(server, "case.answer")).toMatchObject([
      { ...KEY, target: { kind: "case", id: "a-case" } },
    ]);
    expect(await linesOf(server, "job.stop")).toMatchObject([{ ...KEY, before: "awaiting" }]);
    expect(await linesOf(server, "job.retry")).toMatchObject([
      { ...KEY, before: "cancelled", after: { from: "start" } },
    ]);
    expect(JSON.stringify(await server.service.get(AUDIT).list())).not.toContain("a private answer");
  });

  it("bulk actions, and each of their removals with the address of the person", async () => {
    await using server = await begin();
    for (const id of ["a", "b"]) await ask(server, id);
    const body = { kind: "jobs", action: "delete", ids: ["a", "b"] };
    const preview = (await (await server.request("/admin/api/bulk", { json: body })).json()) as Record<
      string,
      string
    >;

    await server.request(`/admin/api/bulk/${preview.id}/run`, { json: { hash: "another" } });
    await server.request(`/admin/api/bulk/${preview.id}/run`, { json: { hash: preview.hash } });
    await expect.poll(() => server.service.get(JOBS).list()).toMatchObject({ total: 0 });

    expect(await linesOf(server, "bulk.run")).toMatchObject([
      {
        ...KEY,
        target: { kind: "bulk", id: preview.id },
        after: { kind: "jobs", action: "delete", count: 2 },
      },
    ]);
    expect(await linesOf(server, "job.delete")).toMatchObject([KEY, KEY]);
  });

  it("stored parameters, without their values", async () => {
    await using server = await begin();
    const json = { parameters_encrypted: null, onboarding_status: "active" };

    await server.request("/agents/asker/parameters", { json });
    await server.request("/agents/asker/parameters", { json });

    expect(await linesOf(server, "agent.parameters")).toMatchObject([
      {
        ...KEY,
        target: { kind: "agent", id: "asker" },
        before: { onboarding_status: null, parameters: "none" },
        after: { onboarding_status: "active", parameters: "none" },
      },
    ]);
  });

  it("the removals by retention, one line for each batch", async () => {
    let ahead = 0;
    await using server = await testServer({
      agents: [asker],
      clock: () => new Date(Date.now() + ahead),
      retention: { cancelled: "1h" },
    });
    await ask(server, "a");
    await server.service.get(RUNNER).stop("a");
    const { finished_at } = await until(server.service, "a");
    ahead = 2 * 3_600_000;

    await server.service.get(RETENTION).run();

    expect(await linesOf(server, "retention.remove")).toMatchObject([
      {
        who: { kind: "system" },
        address: null,
        target: { kind: "agent", id: "asker" },
        after: { status: "cancelled", jobs: 1, cases: 1, oldest: finished_at, newest: finished_at },
      },
    ]);
  });

  it("no line for requests that only read or start jobs", async () => {
    await using server = await begin();
    await ask(server, "a");
    for (const path of ["/agents", "/jobs/a", "/admin/api/jobs"]) await server.request(path);

    expect((await server.service.get(AUDIT).list()).items).toEqual([]);
  });
});

it("a typed name is shown as such in the history of a job", async () => {
  await using server = await begin();
  await ask(server, "a");
  const cookie = await signIn(server, 'CEO "Alice" (session abcdef)');

  await postForm(server, "/admin/jobs/a/status", { status: "failed" }, { cookie });

  const entries = await server.service.get(JOBS).log("a");
  const by = entries.flatMap(({ entry }) => ("by" in entry && entry.by ? [entry.by] : []));
  expect(new Set(by)).toEqual(
    new Set([expect.stringMatching(/^session [\w-]{6}, says "CEO \\"Alice\\" \(session abcdef\)"$/)]),
  );
});
