import { expect } from "vitest";
import { postForm } from "../admin/_sign-in.ts";
import { access } from "../cli/_svc.ts";
import { personHeaders } from "./_twice-controller.ts";
import type { Json, Sent, TwiceDesk } from "./_twice-desk.ts";

/** What a row needs to know of what was made for it. */
export type Made = Readonly<Record<string, string>>;

/** A request that is sent twice, and what it may do: each of its counts grows by one. */
export interface Row {
  /** Method and path, as the document has them. */
  readonly of: string;
  /** Which one of several requests of the operation. */
  readonly which?: string;
  /** Makes what it is about. */
  before?(desk: TwiceDesk, id: string): Promise<unknown>;
  send(id: string, made: Made): Omit<Sent, "method" | "path"> & { readonly path?: string };
  readonly counts: Readonly<
    Record<string, (desk: TwiceDesk, id: string, made: Made) => number | Promise<number>>
  >;
  /** What both responses have in common. @default only the status */
  same?(body: Json): unknown;
  /** Status of the second response where it is a refusal. */
  readonly refused?: number;
  /** The second response says what the request has done, which is nothing. */
  readonly says?: object;
  /** What the documentation says of a request that works each time. */
  readonly each?: { readonly page: string; readonly text: RegExp };
  /** What else a kill may leave undone, as the documentation says. */
  readonly undone?: { readonly count: string; readonly page: string; readonly text: RegExp };
  /** What is counted is not its own: it grows with other trials. */
  readonly shared?: true;
  /** Concerns the service or all jobs: no other row is tried with it. */
  readonly apart?: true;
  after?(desk: TwiceDesk): Promise<unknown>;
}

/** The request of a row. */
export function requestOf(row: Row, id: string, made: Made): Sent {
  const [method, path] = row.of.split(" ") as [string, string];
  return { method, path: path.replace("{id}", id), ...row.send(id, made) };
}

/** What a row counts. */
export async function countsOf(
  desk: TwiceDesk,
  row: Row,
  { id, made }: { readonly id: string; readonly made: Made },
): Promise<Record<string, number>> {
  const all = Object.entries(row.counts).map(async ([name, count]) => [name, await count(desk, id, made)]);
  return Object.fromEntries(await Promise.all(all));
}

const keyed = (id: string) => ({ "idempotency-key": `key-${id}` });
const idOf = ({ id }: Json) => id;
/** An upload of five bytes, of which none has arrived. */
const uploadingTo = (path: (id: string) => string) => async (desk: TwiceDesk, id: string) => {
  const headers = { "tus-resumable": "1.0.0", "upload-length": "5" };
  const { upload } = await desk.make(`${path(id)}?name=note.txt`, undefined, "POST", headers);
  return { upload };
};
const uploading = uploadingTo(() => "/files");
const uploadsOf = (id: string) => `/jobs/${id}/uploads`;
const whole = (body: Json) => body;
const began = (desk: TwiceDesk, id: string) => desk.did(`began ${id}`);
const audit =
  (action: string, target?: string) =>
  (desk: TwiceDesk, id: string): Promise<number> =>
    desk.audit(action, target ?? id);
const caseOf = (id: string) => `case-${id}`;
const asks = (desk: TwiceDesk, id: string) => desk.job(id, "ask", "awaiting");
const ends = (desk: TwiceDesk, id: string) => desk.job(id, "tell", "completed");
const fails = (desk: TwiceDesk, id: string) => desk.job(id, "fail", "failed");
const limited = { job_instructions: { max_cost: 1 } };
const spends = (desk: TwiceDesk, id: string) => desk.job(id, "spend", "failed", limited);
const moves = (desk: TwiceDesk, id: string) => desk.job(id, "ask", "awaiting", {}, "mover");
const yes = { approved: true };
const first = (desk: TwiceDesk, id: string) => desk.did(`first of ${id}`);
/** One answer answers the first question, and none of the later ones. */
const answered = {
  "lines of the audit log": audit("case.answer", ""),
  "answers to the first question": first,
};

/** Jobs whose record no longer fits the code: they are started before that changes. */
export const HELD = /\/continue$/;

/** How a row of the machine's API and its equal of the admin interface differ. */
const both = (path: string, row: Omit<Row, "of">): Row[] => [
  { of: `POST ${path}`, ...row },
  { of: `POST /admin/api${path}`, ...row },
];

async function questionOf(desk: TwiceDesk, id: string): Promise<string> {
  const { body } = await desk.send({ method: "POST", path: "/mcp", ...tool("job_status", { job_id: id }) });
  return (body as Json).result.structuredContent.questions[0].question;
}

const asking = async (desk: TwiceDesk, id: string): Promise<Made> => {
  await asks(desk, id);
  return { question: await questionOf(desk, id) };
};

const rpc = (method: string, params: object) => ({ json: { jsonrpc: "2.0", id: 1, method, params } });
const tool = (name: string, args: object, _meta?: object) => ({
  ...rpc("tools/call", { name, arguments: args, ...(_meta && { _meta }) }),
  headers: { "mcp-protocol-version": "2025-06-18" },
});
/** A request of the revision with tasks. */
const task = (method: string, name: string, params: object, more: object = {}) => ({
  ...rpc(method, {
    ...params,
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "a-test", version: "1.0.0" },
      "io.modelcontextprotocol/clientCapabilities": {
        elicitation: { form: {} },
        extensions: { "io.modelcontextprotocol/tasks": {} },
      },
      ...more,
    },
  }),
  headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": name },
});
const IDEMPOTENCY_KEY = "agent-control-service/idempotency-key";

const a2a = { "a2a-version": "1.0" };
const message = (id: string, parts: object[], more: object = {}) => ({
  message: { messageId: `m-${id}`, role: "ROLE_USER", parts, ...more },
  configuration: { returnImmediately: true },
});
const push = (id: string, desk: string) => ({ taskId: id, id: "", url: `${desk}/pushed`, token: "t" });
const hooks = async (desk: TwiceDesk, id: string): Promise<Made> => {
  await asks(desk, id);
  return { hooks: desk.hooksUrl };
};
const configs = async (desk: TwiceDesk, id: string) =>
  (
    await desk.send({
      ...{ method: "GET", path: `/a2a/clerk/tasks/${id}/pushNotificationConfigs`, headers: a2a },
    })
  ).body as Json;
const countConfigs = async (desk: TwiceDesk, id: string) => ((await configs(desk, id)).configs ?? []).length;
const pushed = async (desk: TwiceDesk, id: string): Promise<Made> => {
  await hooks(desk, id);
  const path = `/a2a/clerk/tasks/${id}/pushNotificationConfigs`;
  const made = await desk.make(path, push(id, desk.hooksUrl), "POST", a2a);
  return { config: made.id };
};

const bulk = async (desk: TwiceDesk, id: string, action: string): Promise<Made> => {
  await fails(desk, id);
  const { id: preview, hash } = await desk.make("/admin/api/bulk", { kind: "jobs", action, ids: [id] });
  return { preview, hash };
};

const deleted = async (desk: TwiceDesk, id: string): Promise<Made> => {
  const { preview, hash } = (await bulk(desk, id, "delete")) as { preview: string; hash: string };
  await desk.make(`/admin/api/bulk/${preview}/run`, { hash });
  await expect.poll(async () => (await desk.get(`/admin/api/bulk/${preview}`)).state).toBe("done");
  return { preview };
};

const deadLetter = async (desk: TwiceDesk, id: string): Promise<Made> => {
  await fails(desk, id);
  const find = async () => {
    const { items } = await desk.get("/admin/api/events?state=dead&limit=100");
    return items.find((one: Json) => JSON.stringify(one).includes(id))?.id ?? "";
  };
  await expect.poll(find).not.toBe("");
  return { letter: await find() };
};

const session = async (desk: TwiceDesk, id: string): Promise<Made> => {
  const { url, key } = await access(desk.service.folder);
  await postForm({ url, key }, "/admin/session", { key, name: id });
  const { items } = await desk.get("/admin/api/sessions");
  return { session: items.find(({ name }: Json) => name === id).id };
};

/** Methods of an agent run beside its jobs: nothing of them is recorded. */
const METHODS = { page: "api.md", text: /runs the method each time/ };

const person = async (desk: TwiceDesk, id: string): Promise<Made> => {
  const { url } = await access(desk.service.folder);
  await fetch(`${url}/whoami`, { headers: await personHeaders(id) });
  await expect.poll(async () => await personOf(desk, id)).toBeDefined();
  return { person: (await personOf(desk, id)).id };
};

async function personOf(desk: TwiceDesk, id: string): Promise<Json> {
  return (await desk.get("/access/people")).find(({ subject }: Json) => subject === id);
}

async function keysOf(desk: TwiceDesk, id: string): Promise<number> {
  return (await desk.get("/access")).filter(({ name }: Json) => name === id).length;
}

/** Every operation that changes something, or could. */
export const ROWS: readonly Row[] = [
  // Jobs.
  {
    of: "POST /agents/{slug}/jobs",
    which: "with a job_id",
    send: (id) => ({
      path: "/agents/clerk/jobs",
      json: { job_context: { job_id: id }, job_fields: { what: id } },
    }),
    counts: {
      jobs: (desk, id) => desk.jobs(`search=${id}`),
      "what it does": began,
      "webhooks about its end": (desk, id) => desk.delivered("ends", id),
    },
    same: idOf,
  },
  {
    of: "POST /agents/{slug}/jobs",
    which: "with a key",
    send: (id) => ({
      ...{ path: "/agents/clerk/jobs", headers: keyed(id) },
      json: { job_context: { mission_name: id }, job_fields: { what: id } },
    }),
    counts: { jobs: (desk, id) => desk.jobs(`search=${id}`), "what it does": began },
    same: idOf,
  },
  {
    of: "POST /agents/{slug}/stop",
    before: asks,
    send: (id) => ({ path: "/agents/clerk/stop", json: { job_context: { job_id: id } } }),
    counts: { "lines of the audit log": audit("job.stop") },
    same: idOf,
  },
  ...both("/jobs/{id}/stop", {
    before: asks,
    send: () => ({}),
    counts: { "lines of the audit log": audit("job.stop") },
    same: idOf,
  }),
  ...both("/jobs/{id}/resume", {
    before: spends,
    send: (id) => ({ headers: keyed(id), json: { job_instructions: { max_cost: 3 } } }),
    counts: {
      "lines of the audit log": audit("job.resume"),
      "what it does": (desk, id) => desk.did(`bought 1 for ${id}`),
    },
    same: idOf,
  }),
  ...both("/jobs/{id}/retry", {
    before: fails,
    send: (id) => ({ headers: keyed(id), json: { from: "start" } }),
    counts: { "lines of the audit log": audit("job.retry") },
    same: idOf,
  }),
  ...both("/jobs/{id}/continue", {
    send: (id) => ({ headers: keyed(id) }),
    counts: { "lines of the audit log": audit("job.continue") },
    same: idOf,
  }),
  ...both("/jobs/{id}/move", {
    before: moves,
    send: (id) => ({ headers: keyed(id), json: { version: "1.0.0" } }),
    counts: { "lines of the audit log": audit("job.move") },
    same: idOf,
  }),
  ...both("/jobs/{id}/fork", {
    which: "with a job_id",
    before: ends,
    send: (id) => ({ json: { from: "start", fields: { what: `${id}-fork` }, job_id: `${id}-fork` } }),
    counts: {
      forks: (desk, id) => desk.jobs(`search=${id}-fork`),
      "lines of the audit log": audit("job.fork"),
      "what it does": (desk, id) => desk.did(`began ${id}-fork`),
    },
    same: idOf,
  }),
  ...both("/jobs/{id}/fork", {
    which: "with a key",
    before: ends,
    send: (id) => ({ headers: keyed(id), json: { from: "start", fields: { what: `${id}-fork` } } }),
    counts: {
      "lines of the audit log": audit("job.fork"),
      "what it does": (desk, id) => desk.did(`began ${id}-fork`),
    },
    same: idOf,
  }),
  {
    of: "POST /jobs/{id}/tokens",
    before: ends,
    send: () => ({ json: {} }),
    counts: { "lines of the audit log": audit("job.token") },
    same: ({ job_id, scopes }) => [job_id, scopes],
    each: { page: "api.md", text: /each request makes another token/ },
  },
  {
    of: "DELETE /jobs/{id}/tokens",
    before: ends,
    send: () => ({}),
    counts: { "lines of the audit log": audit("job.token_revoke") },
    same: whole,
    each: { page: "api.md", text: /each request revokes the tokens that were made before it/ },
  },
  {
    of: "POST /jobs/{id}/messages",
    before: (desk, id) => desk.make("/agents/talker/jobs", { job_context: { job_id: id } }),
    send: (id) => ({ json: { id: "m", content: id } }),
    counts: {
      turns: async (desk, id) => (await desk.get(`/jobs/${id}/cases`)).length,
      "calls of the model": (desk, id) => desk.did(`answered ${id}`),
    },
    same: whole,
  },
  {
    of: "POST /v1/chat/completions",
    which: "without a thread",
    send: (id) => ({
      headers: keyed(id),
      json: { model: "talker", messages: [{ role: "user", content: id }] },
    }),
    counts: { "calls of the model": (desk, id) => desk.did(`answered ${id}`) },
    same: whole,
  },
  {
    of: "POST /v1/chat/completions",
    which: "of a thread",
    send: (id) => ({
      headers: keyed(id),
      json: { model: "talker", messages: [{ role: "user", content: id }], metadata: { thread_id: id } },
    }),
    counts: {
      "calls of the model": (desk, id) => desk.did(`answered ${id}`),
      threads: (desk, id) => desk.jobs(`search=${id}`),
    },
    same: whole,
  },
  {
    of: "POST /v1/responses",
    which: "alone",
    send: (id) => ({ headers: keyed(id), json: { model: "talker", input: id } }),
    counts: { "calls of the model": (desk, id) => desk.did(`answered ${id}`) },
    same: whole,
  },
  {
    of: "POST /v1/responses",
    which: "of a conversation",
    send: (id) => ({ headers: keyed(id), json: { model: "talker", input: id, conversation: id } }),
    counts: {
      "calls of the model": (desk, id) => desk.did(`answered ${id}`),
      threads: (desk, id) => desk.jobs(`search=${id}`),
    },
    same: whole,
  },
  {
    of: "DELETE /v1/responses/{id}",
    before: (desk, id) =>
      desk.make("/agents/talker/jobs", {
        ...{ job_context: { job_id: id }, job_fields: { message: id, once: true } },
      }),
    send: (id) => ({ path: `/v1/responses/resp_${id}` }),
    counts: { "lines of the audit log": audit("job.delete") },
    refused: 404,
  },
  {
    of: "POST /chat/{slug}",
    send: (id) => ({
      path: "/chat/talker",
      json: { id, messages: [{ id: `m-${id}`, role: "user", parts: [{ type: "text", text: id }] }] },
    }),
    counts: {
      "calls of the model": (desk, id) => desk.did(`answered ${id}`),
      threads: (desk, id) => desk.jobs(`search=${id}`),
    },
    same: (text) =>
      [...String(text).matchAll(/"messageId":"[^"]+"|"delta":"([^"]*)"/g)]
        .map(([all, text]) => text ?? all)
        .join(""),
  },
  {
    of: "POST /jobs/{job_id}/cases/{case_id}/update",
    before: asks,
    send: (id) => ({
      path: `/jobs/${id}/cases/${caseOf(id)}/update`,
      ...{ headers: keyed(id), json: { answer: yes } },
    }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: ({ job_id, case_id }) => [job_id, case_id],
  },
  {
    of: "POST /admin/api/cases/{id}/answer",
    before: asks,
    send: (id) => ({
      path: `/admin/api/cases/${caseOf(id)}/answer`,
      ...{ headers: keyed(id), json: { answer: yes } },
    }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: idOf,
  },
  {
    of: "POST /admin/api/cases/{id}/assign",
    before: asks,
    send: (id) => ({ path: `/admin/api/cases/${caseOf(id)}/assign`, json: { to: "finance" } }),
    counts: { "lines of the audit log": (desk, id) => desk.audit("case.assign", caseOf(id)) },
    same: whole,
  },
  {
    of: "POST /admin/api/cases/{id}/links",
    before: asks,
    send: (id) => ({
      path: `/admin/api/cases/${caseOf(id)}/links`,
      ...{ headers: keyed(id), json: { name: "Mira" } },
    }),
    counts: {
      links: async (desk, id) => (await desk.get(`/admin/api/cases/${caseOf(id)}/links`)).items.length,
      "lines of the audit log": (desk, id) => desk.audit("case.link", caseOf(id)),
    },
    refused: 409,
  },
  {
    of: "DELETE /admin/api/cases/{id}/links/{link}",
    before: async (desk, id) => {
      await asks(desk, id);
      const { id: link } = await desk.make(`/admin/api/cases/${caseOf(id)}/links`, { name: "Mira" });
      return { link };
    },
    send: (id, { link }) => ({ path: `/admin/api/cases/${caseOf(id)}/links/${link}` }),
    counts: { "lines of the audit log": (desk, id) => desk.audit("case.link_revoke", caseOf(id)) },
    refused: 404,
  },
  {
    of: "POST /admin/api/cases/{id}/status",
    before: asks,
    send: (id) => ({
      path: `/admin/api/cases/${caseOf(id)}/status`,
      ...{ headers: keyed(id), json: { status: "completed" } },
    }),
    counts: { "lines of the audit log": (desk, id) => desk.audit("case.status", caseOf(id)) },
    same: whole,
  },
  {
    of: "DELETE /admin/api/cases/{id}",
    before: asks,
    send: (id) => ({ path: `/admin/api/cases/${caseOf(id)}` }),
    counts: { "lines of the audit log": (desk, id) => desk.audit("case.delete", caseOf(id)) },
    refused: 404,
  },
  {
    of: "POST /admin/api/cases/{id}/restore",
    before: async (desk, id) => {
      await asks(desk, id);
      await desk.make(`/admin/api/cases/${caseOf(id)}`, undefined, "DELETE");
    },
    send: (id) => ({ path: `/admin/api/cases/${caseOf(id)}/restore` }),
    counts: { "lines of the audit log": (desk, id) => desk.audit("case.restore", caseOf(id)) },
    refused: 409,
  },
  {
    of: "POST /admin/api/jobs/{id}/status",
    before: asks,
    send: (id) => ({ headers: keyed(id), json: { status: "completed" } }),
    counts: { "lines of the audit log": audit("job.status") },
    same: whole,
  },
  {
    of: "DELETE /admin/api/jobs/{id}",
    before: ends,
    send: () => ({}),
    counts: { "lines of the audit log": audit("job.delete") },
    refused: 404,
  },
  {
    of: "POST /admin/api/jobs/{id}/restore",
    before: async (desk, id) => {
      await ends(desk, id);
      await desk.make(`/admin/api/jobs/${id}`, undefined, "DELETE");
    },
    send: () => ({}),
    counts: { "lines of the audit log": audit("job.restore") },
    refused: 409,
  },
  {
    of: "POST /admin/api/bulk",
    before: fails,
    send: (id) => ({ json: { kind: "jobs", action: "retry", ids: [id] } }),
    counts: {},
    same: ({ kind, action, count }) => [kind, action, count],
  },
  {
    of: "POST /admin/api/bulk/{id}/run",
    before: (desk, id) => bulk(desk, id, "delete"),
    send: (_, { preview, hash }) => ({ path: `/admin/api/bulk/${preview}/run`, json: { hash } }),
    counts: {
      "lines of the audit log": (desk, _, { preview }) => desk.audit("bulk.run", preview),
      "jobs that it deletes": (desk, id) => desk.audit("job.delete", id),
    },
    undone: {
      ...{ count: "jobs that it deletes", page: "admin.md" },
      text: /what it had done stays done, and the rest is not/,
    },
    refused: 409,
  },
  {
    of: "POST /admin/api/bulk/{id}/abort",
    before: (desk, id) => bulk(desk, id, "delete"),
    send: (_, { preview }) => ({ path: `/admin/api/bulk/${preview}/abort` }),
    counts: {
      "aborted operations": async (desk, _, { preview }) =>
        Number((await desk.get(`/admin/api/bulk/${preview}`)).state === "aborted"),
    },
    same: whole,
  },
  {
    of: "POST /admin/api/bulk/{id}/undo",
    before: deleted,
    send: (_, { preview }) => ({ path: `/admin/api/bulk/${preview}/undo` }),
    counts: { "jobs that it restores": audit("job.restore") },
  },
  // Schedules.
  ...both("/schedules/{id}/run", {
    send: (id) => ({ headers: keyed(id) }),
    counts: {},
    same: idOf,
  }).map((row, at): Row => {
    const schedule = at === 0 ? "run" : "desk";
    return {
      ...row,
      send: (id) => ({ ...row.send(id, {}), path: row.of.slice(5).replace("{id}", schedule) }),
      counts: {
        jobs: (desk) => desk.jobs(`agent_name=planned-${schedule}`),
        "lines of the audit log": (desk) => desk.audit("schedule.run", schedule),
      },
      shared: true,
    };
  }),
  ...(["pause", "resume"] as const).flatMap((action) =>
    both(`/schedules/{id}/${action}`, { send: () => ({}), counts: {} }).map((row, at): Row => {
      const schedule = `${action}d${at === 0 ? "" : "-desk"}`;
      return {
        ...row,
        before: async (desk) => {
          await desk.make(`/schedules/${schedule}/${action === "pause" ? "resume" : "pause"}`);
        },
        send: () => ({ path: row.of.slice(5).replace("{id}", schedule) }),
        counts: {
          "lines of the audit log": async (desk) =>
            (await desk.get(`/admin/api/audit?limit=200&action=schedule.${action}`)).items.filter(
              ({ target }: Json) => target.id === schedule,
            ).length,
        },
        same: ({ id, paused }) => [id, paused],
        shared: true,
      };
    }),
  ),
  // Events.
  {
    of: "POST /events/{name}",
    before: (desk, id) => desk.job(id, "wait", "in_progress"),
    send: (id) => ({ path: `/events/${id}`, json: { id: "e", data: { n: 1 } } }),
    counts: {
      events: async (desk, id) => (await desk.get(`/events?name=${id}`)).length,
      "what a waiting job does": (desk, id) => desk.did(`got 1 for ${id}`),
    },
    same: whole,
  },
  // The service.
  { of: "POST /utils/resume", send: () => ({}), counts: {}, same: whole, apart: true },
  {
    of: "POST /utils/drain",
    send: () => ({ json: { seconds: 300 } }),
    counts: { "lines of the audit log": (desk) => desk.audit("service.drain") },
    ...{ apart: true, shared: true },
    after: (desk) => desk.make("/utils/drain", { seconds: 0 }),
  },
  { of: "POST /utils/encrypt", send: () => ({ json: '"{}"' }), counts: {} },
  // Agents.
  {
    of: "POST /agents/{slug}/status",
    before: ends,
    send: (id) => ({ path: "/agents/clerk/status", json: { params: { job_id: id } } }),
    counts: { "what the method does": (desk, id) => desk.didEach(`asked ${id}`) },
    same: ({ message }) => message,
    each: METHODS,
  },
  {
    of: "POST /agents/{slug}/chat",
    send: (id) => ({ path: "/agents/clerk/chat", json: { params: { message: id } } }),
    counts: { "what the method does": (desk, id) => desk.didEach(`chatted ${id}`) },
    same: whole,
    each: METHODS,
  },
  {
    of: "POST /agents/{slug}/custom/{name}",
    send: (id) => ({ path: "/agents/clerk/custom/tell", json: { job_fields: { what: id } } }),
    counts: { "what the method does": (desk, id) => desk.didEach(`counted ${id}`) },
    same: ({ message }) => message,
    each: METHODS,
  },
  {
    of: "POST /agents/{slug}/parameters",
    send: (id) => ({ path: "/agents/set/parameters", json: { onboarding_status: id } }),
    counts: {
      "lines of the audit log": async (desk, id) =>
        (await desk.get("/admin/api/audit?limit=200&action=agent.parameters")).items.filter((one: Json) =>
          JSON.stringify(one.after).includes(id),
        ).length,
    },
    same: ({ slug }) => slug,
  },
  {
    of: "POST /agents/{slug}/validate-agent-parameters",
    send: () => ({ path: "/agents/clerk/validate-agent-parameters", json: {} }),
    ...{ counts: {}, same: whole },
  },
  {
    of: "POST /agents/{slug}/validate-method-fields",
    send: () => ({ path: "/agents/clerk/validate-method-fields", json: { job_fields: {} } }),
    ...{ counts: {}, same: whole },
  },
  ...(["pause", "resume"] as const).map((action): Row => {
    const slug = `${action}d`;
    return {
      of: `POST /admin/api/agents/{slug}/${action}`,
      before: async (desk) => {
        await desk.make(`/admin/api/agents/${slug}/${action === "pause" ? "resume" : "pause"}`);
      },
      send: () => ({ path: `/admin/api/agents/${slug}/${action}` }),
      ...{ counts: { "lines of the audit log": audit(`agent.${action}`, slug) }, shared: true },
      same: whole,
    };
  }),
  {
    of: "POST /admin/api/agents/{slug}/parameters",
    send: (id) => ({ path: "/admin/api/agents/set-desk/parameters", json: { parameters: { REGION: id } } }),
    ...{ counts: { "lines of the audit log": audit("agent.parameters", "set-desk") }, shared: true },
    same: whole,
  },
  // What waits to be delivered.
  {
    of: "POST /admin/api/events/retry",
    before: async (desk, id) => {
      const made = await deadLetter(desk, id);
      desk.accept(id);
      return made;
    },
    send: (_, { letter }) => ({ json: { ids: [letter] } }),
    counts: { "webhooks that arrive": (desk, id) => desk.delivered("picky", id) },
    says: { retried: 0 },
  },
  {
    of: "POST /admin/api/events/drop",
    before: deadLetter,
    send: (_, { letter }) => ({ json: { ids: [letter] } }),
    counts: {
      "dropped letters": async (desk, _, { letter }) =>
        1 -
        Number(
          (await desk.get("/admin/api/events?state=dead&limit=100")).items.some(
            ({ id }: Json) => id === letter,
          ),
        ),
    },
    says: { dropped: 0 },
  },
  // Named keys.
  {
    of: "POST /access",
    send: (id) => ({ json: { name: id, role: "viewer" } }),
    counts: { keys: keysOf },
    refused: 409,
  },
  {
    of: "POST /access/{id}/rotate",
    before: async (desk, id) => {
      await desk.make("/access", { name: id, role: "viewer" });
      return {};
    },
    send: (id) => ({ path: `/access/${id}/rotate` }),
    ...{ counts: { "lines of the audit log": (desk) => desk.audit("access.rotate") }, shared: true },
    each: { page: "access.md", text: /each request to rotate makes another key/ },
  },
  {
    of: "POST /access/signing-keys",
    send: () => ({}),
    counts: { "lines of the audit log": (desk) => desk.audit("signing_key.changed", "signing-key") },
    ...{ apart: true, shared: true },
    each: { page: "security.md", text: /each request replaces it once more/ },
  },
  {
    of: "DELETE /access/{id}",
    before: async (desk, id) => {
      await desk.make("/access", { name: id, role: "viewer" });
      return {};
    },
    send: (id) => ({ path: `/access/${id}` }),
    counts: { "removed keys": async (desk, id) => 1 - (await keysOf(desk, id)) },
    refused: 404,
  },
  // People.
  {
    of: "DELETE /access/people/{id}",
    before: person,
    send: (_, { person }) => ({ path: `/access/people/${person}` }),
    counts: {
      "lines of the audit log": (desk, _, { person }) => desk.audit("access.remove", person!),
      "removed people": async (desk, id) => Number((await personOf(desk, id)).removed_at !== null),
    },
    same: idOf,
  },
  {
    of: "POST /access/people/{id}/restore",
    before: async (desk, id) => {
      const made = await person(desk, id);
      await desk.send({ method: "DELETE", path: `/access/people/${made.person}` });
      return made;
    },
    send: (_, { person }) => ({ path: `/access/people/${person}/restore` }),
    counts: {
      "lines of the audit log": (desk, _, { person }) => desk.audit("access.restore", person!),
      "restored people": async (desk, id) => Number((await personOf(desk, id)).removed_at === null),
    },
    same: idOf,
  },
  // Files.
  {
    of: "POST /files",
    send: (id) => ({ path: `/files?name=${id}`, json: "noted", headers: { "content-type": "text/plain" } }),
    counts: {},
    each: { page: "files.md", text: /each request to upload makes another upload/ },
  },
  {
    of: "PATCH /files/{upload}",
    before: uploading,
    send: (_, { upload }) => ({
      ...{ path: `/files/${upload}`, json: "noted" },
      headers: { "content-type": "application/offset+octet-stream", "upload-offset": "0" },
    }),
    counts: { "all of it": async (desk, _, { upload }) => (await desk.get(`/files/${upload}`)).size / 5 },
    refused: 409,
  },
  {
    of: "DELETE /files/{upload}",
    before: uploading,
    send: (_, { upload }) => ({ path: `/files/${upload}` }),
    counts: {
      "removed uploads": async (desk, _, { upload }) =>
        Number((await desk.send({ method: "GET", path: `/files/${upload}` })).status === 404),
    },
    refused: 404,
  },
  {
    of: "POST /v1/files",
    send: (id) => ({
      path: "/v1/files",
      json: `--part\r\ncontent-disposition: form-data; name="file"; filename="${id}"\r\n\r\nnoted\r\n--part--\r\n`,
      headers: { "content-type": "multipart/form-data; boundary=part" },
    }),
    counts: {},
    each: { page: "files.md", text: /each request to upload makes another upload/ },
  },
  {
    of: "DELETE /v1/files/{id}",
    before: uploading,
    send: (_, { upload }) => ({ path: `/v1/files/file-${upload}` }),
    counts: {
      "removed uploads": async (desk, _, { upload }) =>
        Number((await desk.send({ method: "GET", path: `/files/${upload}` })).status === 404),
    },
    refused: 404,
  },
  {
    of: "POST /jobs/{id}/uploads",
    before: asks,
    send: (id) => ({ path: uploadsOf(id), json: "noted", headers: { "content-type": "text/plain" } }),
    counts: {},
    each: { page: "files.md", text: /each request to upload makes another upload/ },
  },
  {
    of: "PATCH /jobs/{id}/uploads/{upload}",
    before: async (desk, id) => {
      await asks(desk, id);
      return uploadingTo(uploadsOf)(desk, id);
    },
    send: (id, { upload }) => ({
      ...{ path: `${uploadsOf(id)}/${upload}`, json: "noted" },
      headers: { "content-type": "application/offset+octet-stream", "upload-offset": "0" },
    }),
    counts: { "all of it": async (desk, _, { upload }) => (await desk.get(`/files/${upload}`)).size / 5 },
    refused: 409,
  },
  {
    of: "DELETE /jobs/{id}/uploads/{upload}",
    before: async (desk, id) => {
      await asks(desk, id);
      return uploadingTo(uploadsOf)(desk, id);
    },
    send: (id, { upload }) => ({ path: `${uploadsOf(id)}/${upload}` }),
    counts: {
      "removed uploads": async (desk, _, { upload }) =>
        Number((await desk.send({ method: "GET", path: `/files/${upload}` })).status === 404),
    },
    refused: 404,
  },
  // What people have in the admin interface.
  {
    of: "POST /admin/api/failures/{failure}/mark",
    before: async (desk, id) => {
      await fails(desk, id);
      const { failure, last_at } = (await desk.get("/admin/api/failures")).items[0];
      return { failure, last_at };
    },
    send: (_, { failure, last_at }) => ({
      path: `/admin/api/failures/${failure}/mark`,
      json: { state: "resolved", until: last_at },
    }),
    counts: { "lines of the audit log": (desk, _, { failure }) => desk.audit("failure.resolve", failure!) },
    ...{ apart: true, shared: true },
  },
  {
    of: "POST /admin/api/views",
    send: (id) => ({ json: { name: id, query: "status=failed" } }),
    counts: {
      views: async (desk, id) =>
        (await desk.get("/admin/api/views")).items.filter(({ name }: Json) => name === id).length,
    },
    same: idOf,
  },
  {
    of: "DELETE /admin/api/views/{id}",
    before: async (desk, id) => {
      const { id: view } = await desk.make("/admin/api/views", { name: id, query: "status=failed" });
      return { view };
    },
    send: (_, { view }) => ({ path: `/admin/api/views/${view}` }),
    counts: {
      "removed views": async (desk, _, { view }) =>
        1 - Number((await desk.get("/admin/api/views")).items.some(({ id }: Json) => id === view)),
    },
    refused: 404,
  },
  {
    of: "POST /admin/api/sign-in-links",
    send: () => ({}),
    ...{ counts: { "lines of the audit log": (desk) => desk.audit("session.link") }, shared: true },
    each: { page: "admin.md", text: /each request creates another sign-in link/ },
  },
  {
    of: "DELETE /admin/api/sessions/{id}",
    before: session,
    send: (_, { session }) => ({ path: `/admin/api/sessions/${session}` }),
    counts: {
      "ended sessions": async (desk, id) =>
        1 - Number((await desk.get("/admin/api/sessions")).items.some(({ name }: Json) => name === id)),
    },
    refused: 404,
  },
  {
    of: "DELETE /admin/api/sessions",
    before: session,
    send: () => ({ path: "/admin/api/sessions" }),
    counts: {
      "ended sessions": async (desk) => 1 - Math.min(1, (await desk.get("/admin/api/sessions")).items.length),
    },
    ...{ apart: true, shared: true },
  },
  // Agent2Agent.
  {
    of: "POST /a2a/{slug}",
    which: "SendMessage that starts a job",
    send: (id) => ({
      path: "/a2a/clerk",
      ...{ headers: a2a, ...rpc("SendMessage", message(id, [{ data: { what: id } }])) },
    }),
    counts: { "what it does": began },
    same: ({ result }) => result.task,
  },
  {
    of: "POST /a2a/{slug}",
    which: "SendMessage that answers",
    before: asks,
    send: (id) => ({
      path: "/a2a/clerk",
      ...{ headers: a2a, ...rpc("SendMessage", message(id, [{ data: yes }], { taskId: id })) },
    }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: ({ result }) => result.task,
  },
  {
    of: "POST /a2a/{slug}",
    which: "CancelTask",
    before: asks,
    send: (id) => ({ path: "/a2a/clerk", headers: a2a, ...rpc("CancelTask", { id }) }),
    counts: { "lines of the audit log": audit("job.stop") },
    same: ({ result }) => result.id,
  },
  {
    of: "POST /a2a/{slug}",
    which: "CreateTaskPushNotificationConfig",
    before: hooks,
    send: (id, { hooks }) => ({
      path: "/a2a/clerk",
      ...{ headers: a2a, ...rpc("CreateTaskPushNotificationConfig", push(id, hooks!)) },
    }),
    counts: { configurations: countConfigs },
    same: ({ result }) => result.id,
  },
  {
    of: "POST /a2a/{slug}",
    which: "DeleteTaskPushNotificationConfig",
    before: pushed,
    send: (id, { config }) => ({
      path: "/a2a/clerk",
      ...{ headers: a2a, ...rpc("DeleteTaskPushNotificationConfig", { taskId: id, id: config }) },
    }),
    counts: { "removed configurations": async (desk, id) => 1 - (await countConfigs(desk, id)) },
    same: ({ error }) => error,
  },
  {
    of: "POST /a2a/{slug}/{action}",
    send: (id) => ({
      path: "/a2a/clerk/message:send",
      ...{ headers: a2a, json: message(id, [{ data: { what: id } }]) },
    }),
    counts: { "what it does": began },
    same: whole,
  },
  {
    of: "POST /a2a/{slug}/tasks/{target}",
    before: asks,
    send: (id) => ({ path: `/a2a/clerk/tasks/${id}:cancel`, headers: a2a, json: {} }),
    counts: { "lines of the audit log": audit("job.stop") },
    same: idOf,
  },
  {
    of: "POST /a2a/{slug}/tasks/{id}/pushNotificationConfigs",
    before: hooks,
    send: (id, { hooks }) => ({
      path: `/a2a/clerk/tasks/${id}/pushNotificationConfigs`,
      ...{ headers: a2a, json: push(id, hooks!) },
    }),
    counts: { configurations: countConfigs },
    same: whole,
  },
  {
    of: "DELETE /a2a/{slug}/tasks/{id}/pushNotificationConfigs/{config}",
    before: pushed,
    send: (id, { config }) => ({
      path: `/a2a/clerk/tasks/${id}/pushNotificationConfigs/${encodeURIComponent(config!)}`,
      headers: a2a,
    }),
    counts: { "removed configurations": async (desk, id) => 1 - (await countConfigs(desk, id)) },
  },
  // Model Context Protocol.
  {
    of: "POST /mcp",
    which: "tools/call job_start",
    send: (id) => tool("job_start", { agent: "clerk", fields: { what: id }, idempotency_key: `key-${id}` }),
    counts: { "what it does": began },
    same: ({ result }) => result.structuredContent.job_id,
  },
  {
    of: "POST /mcp",
    which: "tools/call of an agent",
    send: (id) => tool("clerk", { what: id }, { [IDEMPOTENCY_KEY]: `key-${id}` }),
    counts: { "what it does": began },
    same: ({ result }) => result.structuredContent.job_id,
  },
  {
    of: "POST /mcp",
    which: "tools/call of an agent, as a task",
    send: (id) =>
      task(
        "tools/call",
        "clerk",
        { name: "clerk", arguments: { what: id } },
        { [IDEMPOTENCY_KEY]: `key-${id}` },
      ),
    counts: { "what it does": began },
    same: ({ result }) => result,
  },
  {
    of: "POST /mcp",
    which: "tools/call job_answer",
    before: asking,
    send: (id, { question }) => tool("job_answer", { job_id: id, question, answer: yes }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: ({ result }) => result,
  },
  {
    of: "POST /mcp",
    which: "tools/call job_cancel",
    before: asks,
    send: (id) => tool("job_cancel", { job_id: id }),
    counts: { "lines of the audit log": audit("job.stop") },
    same: ({ result }) => result.structuredContent.job_id,
  },
  {
    of: "POST /mcp",
    which: "tasks/update",
    before: asking,
    send: (id, { question }) =>
      task("tasks/update", id, {
        taskId: id,
        inputResponses: { [question!]: { action: "accept", content: yes } },
      }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: ({ error }) => error,
  },
  {
    of: "POST /mcp",
    which: "tasks/cancel",
    before: asks,
    send: (id) => task("tasks/cancel", id, { taskId: id }),
    counts: { "lines of the audit log": audit("job.stop") },
    same: ({ error }) => error,
  },
  // AG-UI.
  {
    of: "POST /ag-ui/{slug}",
    which: "the first run of a thread",
    send: (id) => ({
      path: "/ag-ui/clerk",
      json: { threadId: id, runId: "r", messages: [], forwardedProps: { fields: { what: id } } },
    }),
    counts: { jobs: (desk, id) => desk.jobs(`search=${id}`), "what it does": began },
    same: (text) => /"RUN_FINISHED"/.test(text),
  },
  {
    of: "POST /ag-ui/{slug}",
    which: "a run that answers",
    before: asking,
    send: (id, { question }) => ({
      path: "/ag-ui/clerk",
      json: {
        ...{ threadId: id, runId: "r2", messages: [] },
        resume: [{ interruptId: question, status: "resolved", payload: yes }],
      },
    }),
    counts: { ...answered, "lines of the audit log": (desk, id) => desk.audit("case.answer", caseOf(id)) },
    same: (text) => /"RUN_FINISHED"/.test(text),
  },
];
