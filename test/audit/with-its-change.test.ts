import { STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import type { AuditAction } from "../../src/core/models/audit-entry.ts";
import { AUDIT } from "../../src/core/service/tokens.ts";
import { postForm, signIn } from "../admin/_sign-in.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { tappedStore } from "../store/tapped-store.ts";

interface Change {
  readonly what: string;
  readonly action: AuditAction;
  /** Makes what it is about; resolves with the request, and with what can be seen of its effect. */
  prepare(server: TestServer): Promise<{
    readonly send: () => Promise<Response>;
    readonly seen: () => Promise<unknown>;
  }>;
}

const sessions = async ({ service }: TestServer) =>
  (await service.get(STORE).table("AdminSession").list({ limit: 10 })).total;
const links = async ({ service }: TestServer) =>
  (await service.get(STORE).table("SignInLink").list({ limit: 10 })).total;

async function linkOf(server: TestServer): Promise<string> {
  const made = await server.request("/admin/api/sign-in-links", { method: "POST" });
  const { path } = (await made.json()) as { path: string };
  return new URL(path, server.url).searchParams.get("token") ?? "";
}

async function preview(server: TestServer): Promise<{ id: string; hash: string }> {
  const { id } = await startJob(server.service);
  await until(server.service, id);
  const made = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "delete", ids: [id] },
  });
  return (await made.json()) as { id: string; hash: string };
}

async function deadLetter({ service }: TestServer): Promise<() => Promise<unknown>> {
  const table = service.get(STORE).table("Outbox");
  await table.insert({
    ...{ id: "1.nobody", event_id: "1", target: "nobody", stream: "service", type: "test", state: "dead" },
    ...{ attempts: 3, error: "no", status: 500, failed_at: null, seq: 1, body: {} },
    created_at: new Date().toISOString(),
  });
  return async () => (await table.get("1.nobody"))?.state;
}

const stateOf = async (server: TestServer, id: string) =>
  (await server.service.get(STORE).table("BulkOperation").get(id))?.state;

const CHANGES: readonly Change[] = [
  {
    what: "signing in with the key",
    action: "session.begin",
    prepare: async (server) => ({
      send: () => postForm(server, "/admin/session", { key: server.key }),
      seen: () => sessions(server),
    }),
  },
  {
    what: "signing in with a link",
    action: "session.begin",
    async prepare(server) {
      const token = await linkOf(server);
      return {
        send: () => postForm(server, "/admin/sign-in", { token }),
        seen: async () => [await sessions(server), await links(server)],
      };
    },
  },
  {
    what: "the end of a session",
    action: "session.end",
    async prepare(server) {
      const cookie = await signIn(server, "Ada");
      return {
        send: () => postForm(server, "/admin/session/end", {}, { cookie }),
        seen: async () => [
          await sessions(server),
          (await fetch(`${server.url}/admin/api/sessions`, { headers: { cookie } })).status,
        ],
      };
    },
  },
  {
    what: "a sign-in link",
    action: "session.link",
    prepare: async (server) => ({
      send: () => server.request("/admin/api/sign-in-links", { method: "POST" }),
      seen: () => links(server),
    }),
  },
  {
    what: "the run of a bulk operation",
    action: "bulk.run",
    async prepare(server) {
      const { id, hash } = await preview(server);
      return {
        send: () => server.request(`/admin/api/bulk/${id}/run`, { json: { hash } }),
        seen: async () => (await stateOf(server, id)) !== "preview",
      };
    },
  },
  {
    what: "its abort",
    action: "bulk.abort",
    async prepare(server) {
      const { id } = await preview(server);
      // As on another instance.
      const running = { state: "running", alive: Date.now() } as const;
      await server.service
        .get(STORE)
        .table("BulkOperation")
        .change(id, (row) => ({ ...row, ...running }));
      return {
        send: () => server.request(`/admin/api/bulk/${id}/abort`, { method: "POST" }),
        seen: () => stateOf(server, id),
      };
    },
  },
  {
    what: "sending dead letters again",
    action: "events.retry",
    async prepare(server) {
      const seen = await deadLetter(server);
      return { send: () => server.request("/admin/api/events/retry", { json: { ids: "all" } }), seen };
    },
  },
  {
    what: "dropping dead letters",
    action: "events.drop",
    async prepare(server) {
      const seen = await deadLetter(server);
      return { send: () => server.request("/admin/api/events/drop", { json: { ids: ["1.nobody"] } }), seen };
    },
  },
];

it.each(CHANGES)("what the audit log cannot record does not happen: $what", async ({ action, prepare }) => {
  const tapped = tappedStore();
  await using server = await testServer({ agents: [agentOf(() => "done")], store: tapped.open });
  const count = async () => (await server.service.get(AUDIT).list({ action })).items.length;
  const { send, seen } = await prepare(server);
  const [before, lines] = [await seen(), await count()];

  tapped.refuse = (write) => {
    if (write === "append Audit") throw new Error("there is no room for a line");
  };
  const refused = await send();
  const after = await seen();
  tapped.refuse = undefined;

  expect(refused.status).toBe(500);
  expect(after).toEqual(before);
  expect(await count()).toBe(lines);

  const done = await send();

  expect(done.status).toBeLessThan(400);
  await expect.poll(seen).not.toEqual(before);
  expect(await count()).toBe(lines + 1);
});
