import { createHash } from "node:crypto";
import { type AddedRoute, CASES, RUNNER, STORE, THREADS } from "agent-control-service/plugin";
import { expect, vi } from "vitest";
import { SIGN_IN_LINK } from "../../src/core/service/tokens.ts";
import { signIn } from "../admin/_sign-in.ts";
import { jobContext } from "../http/_jobs.ts";
import { NOTE } from "./_clerk.ts";
import { sampleOf } from "./_sample.ts";
import type { World } from "./_world.ts";

type Values = Readonly<Record<string, string>>;

/** What a route needs beside what its schemas say. */
interface Example {
  readonly params?: Values;
  readonly query?: Values;
  readonly json?: unknown;
  readonly form?: Values;
  /** A body that is neither JSON nor a form. */
  readonly content?: string;
  readonly headers?: Values;
}

/** A request that a route answers with success. */
export interface Filled {
  readonly method: string;
  readonly path: string;
  readonly type?: string;
  readonly body?: string;
  readonly headers?: Values;
}

/** A request to a route: from its example, where there is one, and from its schemas. */
export async function fill(
  world: World,
  route: AddedRoute,
  /** Headers of the one who asks. */
  who: Values,
): Promise<Filled> {
  const example = (await EXAMPLES[`${route.method} ${route.path}`]?.(world, who)) ?? {};
  const params = example.params ?? (await paramsOf(world, route, who));
  const query = example.query ?? (route.query ? (sampleOf(route.query) as Values) : {});
  const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? "x"));
  const search = new URLSearchParams(query).toString();
  return {
    method: route.method,
    path: search === "" ? path : `${path}?${search}`,
    ...bodyOf(route, example),
    ...(example.headers && { headers: example.headers }),
  };
}

/**
 * The same without anything that would have to exist first: enough for clients that are refused before the
 * handler.
 */
export function fillBlindly(route: AddedRoute): Filled {
  const path = route.path.replace(/\{\w+\}/g, "x");
  return { method: route.method, path, ...bodyOf(route, {}) };
}

export function takesBody({ method, body }: AddedRoute): boolean {
  return body !== undefined || method !== "GET";
}

function bodyOf(
  route: AddedRoute,
  { json, form, content, headers }: Example,
): { type?: string; body?: string } {
  if (!takesBody(route)) return {};
  if (content !== undefined)
    return { type: headers?.["content-type"] ?? "application/offset+octet-stream", body: content };
  if (route.body) return { type: "application/json", body: JSON.stringify(json ?? sampleOf(route.body)) };
  return { type: "application/x-www-form-urlencoded", body: new URLSearchParams(form ?? {}).toString() };
}

/** Entities are recreated for each request, as many routes change or delete them. */
async function paramsOf(world: World, { path, params }: AddedRoute, who: Values): Promise<Values> {
  const sampled = params ? (sampleOf(params) as Record<string, string>) : {};
  if ("slug" in sampled) sampled.slug = "clerk";
  if ("job_id" in sampled || (path.includes("/jobs/") && "id" in sampled)) {
    const job = await world.job();
    if ("id" in sampled) sampled.id = job;
    if ("job_id" in sampled) sampled.job_id = job;
    if ("case_id" in sampled) sampled.case_id = await caseOf(world, job);
  } else if (path.includes("/cases/") && "id" in sampled) sampled.id = await caseOf(world, await world.job());
  else if (path.includes("/bulk/")) sampled.id = (await previewOf(world, who)).id;
  return sampled;
}

async function caseOf(world: World, job: string): Promise<string> {
  return (await openCaseOf(world, job)).id;
}

async function openCaseOf({ server }: World, job: string) {
  const { items } = await server.service.get(CASES).list({ where: { job_id: job } });
  return items[0]!;
}

async function previewOf(world: World, who: Values): Promise<{ id: string; hash: string }> {
  const answer = await world.send({
    method: "POST",
    path: "/admin/api/bulk",
    headers: { ...who, "content-type": "application/json" },
    body: JSON.stringify({ kind: "jobs", action: "stop", ids: [await world.job()] }),
  });
  return JSON.parse(answer.text) as { id: string; hash: string };
}

const thread = async ({ server }: World): Promise<Example> => {
  const { jobId } = await server.service.get(THREADS).start("talker", { message: "hello" }, {});
  return { params: { id: jobId }, form: { content: "hello" } };
};
const response = async ({ server }: World): Promise<Example> => {
  const { jobId } = await server.service.get(THREADS).start("talker", { message: "hello", once: true }, {});
  return { params: { id: `resp_${jobId}` }, query: {} };
};
const deleted = async (world: World): Promise<Example> => {
  const id = await world.job("fail");
  await world.server.service.get(RUNNER).remove(id, "gate");
  return { params: { id } };
};
const deletedCase = async (world: World): Promise<Example> => {
  const id = await caseOf(world, await world.job());
  await world.server.service.get(RUNNER).removeCase(id, "gate");
  return { params: { id } };
};
/** A bulk deletion that has ended. */
const deletedMany = async (world: World, who: Values): Promise<Example> => {
  const order = { kind: "jobs", action: "delete", ids: [await world.job()] };
  const send = async (path: string, json: unknown, method = "POST") => {
    const headers = { ...who, "content-type": "application/json" };
    const body = json === undefined ? {} : { body: JSON.stringify(json) };
    return JSON.parse((await world.send({ method, path, headers, ...body })).text) as Record<string, string>;
  };
  const { id, hash } = await send("/admin/api/bulk", order);
  await send(`/admin/api/bulk/${id}/run`, { hash });
  await vi.waitFor(async () =>
    expect(await send(`/admin/api/bulk/${id}`, undefined, "GET")).toMatchObject({ state: "done" }),
  );
  return { params: { id: id! } };
};
const failed = async (world: World): Promise<Example> => ({ params: { id: await world.job("fail") } });
/** A reason for which a job failed. */
const reasonOf = async (world: World): Promise<Values> => {
  await world.job("fail");
  const response = await world.server.request("/admin/api/failures");
  const { items } = (await response.json()) as { items: { failure: string }[] };
  return { failure: items[0]!.failure };
};
/** A job that is held as it is when other code ran it before. */
const held = async (world: World): Promise<Example> => {
  const id = await world.job();
  const code = { version: "0.9.0", fingerprint: "other" };
  const message = "The record does not fit";
  await world.server.service
    .get(STORE)
    .table("Job")
    .change(id, (job) => ({
      ...job,
      stop_reason: "code_changed",
      error: message,
      held: { at: job.updated_at, message, expected: "step", found: null, recorded: code, present: code },
    }));
  return { params: { id } };
};
const moved = async (world: World): Promise<Example> => ({
  params: { id: await world.job() },
  json: { version: "1.0.0" },
  form: { version: "1.0.0" },
});
const forked = async (world: World): Promise<Example> => ({
  params: { id: await world.job() },
  json: { from: "start" },
  form: { from: "start" },
});
const limited = async (world: World): Promise<Example> => ({
  params: { id: await world.job("spend") },
  json: { job_instructions: { max_cost: 100 } },
  form: { max_cost: "100" },
});
const answer = { json: { answer: { approved: true }, message: null } };
const run = async (world: World, who: Values): Promise<Example> => {
  const { id, hash } = await previewOf(world, who);
  return { params: { id }, json: { hash }, form: { hash } };
};
const sessionOf = async ({ server }: World): Promise<Values> => {
  await signIn(server, "Guest");
  const { items } = (await (await server.request("/admin/api/sessions")).json()) as {
    items: { id: string }[];
  };
  return { id: items[0]!.id };
};
const planned = (): Example => ({ params: { id: "yearly" } });
const token = async ({ server, url }: World): Promise<Values> => ({
  token: new URL((await server.service.get(SIGN_IN_LINK).create(url)).url).searchParams.get("token") ?? "",
});

/** A program that wants to act as a person. */
const PROGRAM = {
  port: "40000",
  challenge: "c".repeat(43),
  state: "s".repeat(22),
  program: "svc on a machine",
};

/** A link that answers the question of a new job. */
const linked = async (world: World) => {
  const { id } = await openCaseOf(world, await world.job());
  const response = await world.server.request(`/admin/api/cases/${id}/links`, { json: { name: "Mira" } });
  const link = (await response.json()) as { id: string; path: string };
  return { params: { id, link: link.id }, token: new URL(link.path, world.url).searchParams.get("token")! };
};

/** A job whose changes are sent somewhere. */
const pushed = async (world: World): Promise<Example> => {
  const id = await world.job();
  await world.server.request(`/a2a/clerk/tasks/${id}/pushNotificationConfigs`, {
    headers: { "a2a-version": "1.0" },
    json: { id: "c1", url: "https://receiver.invalid/hook" },
  });
  return { params: { slug: "clerk", id, config: "c1" } };
};

let keys = 0;
const newKey = () => ({ name: `key ${++keys}`, role: "viewer", agents: ["clerk"], expires_in: "90d" });
const named = async ({ server }: World): Promise<Example> => {
  const made = (await (await server.request("/access", { json: newKey() })).json()) as {
    access: { id: string };
  };
  return { params: { id: made.access.id } };
};

/** An upload of which nothing has arrived. */
const uploading = async ({ server }: World): Promise<Example> => {
  const begun = await server.request("/files?name=note.txt", {
    method: "POST",
    headers: { "tus-resumable": "1.0.0", "upload-length": "4" },
  });
  const { upload } = (await begun.json()) as { upload: string };
  return { params: { upload }, content: "note", headers: { "upload-offset": "0" } };
};
/** One that is complete, as clients for OpenAI name it. */
const uploaded = async ({ server }: World): Promise<Example> => {
  const sent = await server.request("/files?name=note.txt", { method: "POST", body: "note" });
  const { upload } = (await sent.json()) as { upload: string };
  return { params: { id: `file-${upload}` } };
};
const uploadingOf = async (world: World): Promise<Example> => {
  const id = await world.job();
  // Of a page with a token, which the key sees too.
  const made = await world.server.request(`/jobs/${id}/tokens`, { json: { scopes: ["answer"] } });
  const authorization = `Bearer ${((await made.json()) as { token: string }).token}`;
  const begun = await world.server.request(`/jobs/${id}/uploads?name=note.txt`, {
    ...{ method: "POST", key: null },
    headers: { authorization, "tus-resumable": "1.0.0", "upload-length": "4" },
  });
  const { upload } = (await begun.json()) as { upload: string };
  return { params: { id, upload }, content: "note", headers: { "upload-offset": "0" } };
};
const NOTE_HASH = createHash("sha256").update(NOTE.text).digest("hex");
const withFile = async (world: World): Promise<Example> => ({
  params: { id: await world.job("tell"), sha256: NOTE_HASH },
});
const person = async ({ server }: World): Promise<Example> => {
  const id = `person-${++keys}`;
  const at = new Date().toISOString();
  await server.service.get(STORE).transaction((tx) =>
    tx.insert("Person", {
      ...{ id, issuer: "https://people.example.com", subject: id, name: id, groups: [] },
      ...{ role: "viewer", first_seen_at: at, seen_at: at, removed_at: null },
    }),
  );
  return { params: { id } };
};

/** Only what a schema cannot say: which entity, in which state, with which fields of the agent. */
const EXAMPLES: Readonly<Record<string, (world: World, who: Values) => Example | Promise<Example>>> = {
  "POST /access": () => ({ json: newKey() }),
  "POST /admin/access": () => ({ form: { name: `key ${++keys}`, role: "viewer", expires: "90d" } }),
  "POST /admin/access/{id}/rotate": named,
  "POST /admin/access/{id}/remove": named,
  "POST /admin/access/people/{id}/remove": person,
  "POST /admin/access/people/{id}/restore": person,
  "POST /access/{id}/rotate": named,
  "DELETE /access/{id}": named,
  "DELETE /access/people/{id}": person,
  "POST /access/people/{id}/restore": person,
  "GET /files/{upload}": uploading,
  "PATCH /files/{upload}": uploading,
  "DELETE /files/{upload}": async (world) => ({ params: (await uploading(world)).params! }),
  "POST /v1/files": () => ({
    content:
      '--part\r\ncontent-disposition: form-data; name="file"; filename="note.txt"\r\n\r\nnote\r\n--part--\r\n',
    headers: { "content-type": "multipart/form-data; boundary=part" },
  }),
  "GET /v1/files/{id}": uploaded,
  "GET /v1/files/{id}/content": uploaded,
  "DELETE /v1/files/{id}": uploaded,
  "GET /jobs/{id}/uploads/{upload}": uploadingOf,
  "PATCH /jobs/{id}/uploads/{upload}": uploadingOf,
  "DELETE /jobs/{id}/uploads/{upload}": async (world) => ({ params: (await uploadingOf(world)).params! }),
  "GET /jobs/{id}/files/{sha256}": withFile,
  "GET /admin/jobs/{id}/files/{sha256}": withFile,
  "GET /admin/jobs/{id}/files/{sha256}/view": withFile,
  "POST /agents/{slug}/jobs": (world) => ({
    json: {
      job_context: jobContext("started-by-route"),
      job_fields: {},
      encrypted_agent_parameters: world.sealed,
    },
  }),
  "POST /jobs/{id}/messages": thread,
  "GET /admin/jobs/{id}/chat": thread,
  "GET /admin/api/jobs/{id}/chat": thread,
  "POST /admin/jobs/{id}/chat": thread,
  "GET /admin/agents/{slug}/chat": () => ({ params: { slug: "talker" } }),
  "POST /admin/agents/{slug}/chat": () => ({ params: { slug: "talker" }, form: { content: "hello" } }),
  "GET /v1/models/{id}": () => ({ params: { id: "talker" } }),
  "POST /v1/chat/completions": () => ({
    json: { model: "talker", messages: [{ role: "user", content: "hello" }] },
  }),
  "POST /v1/responses": () => ({ json: { model: "talker", input: "hello" } }),
  "GET /v1/responses/{id}": (world) => response(world),
  "DELETE /v1/responses/{id}": (world) => response(world),
  "POST /chat/{slug}": () => ({
    params: { slug: "talker" },
    json: { id: "from-the-gate", messages: [{ role: "user", parts: [{ type: "text", text: "hello" }] }] },
  }),
  "GET /chat/{slug}/{id}/stream": () => ({ params: { slug: "talker", id: "from-the-gate" }, query: {} }),
  "POST /agents/{slug}/stop": async (world) => ({
    json: { job_context: jobContext(await world.job()) },
  }),
  "GET /agents/{slug}/jobs/{id}": async (world) => ({
    params: { slug: "clerk", id: await world.job("fail") },
  }),
  "POST /agents/{slug}/status": async (world) => ({
    json: { params: { job_id: await world.job("tell") } },
  }),
  "POST /agents/{slug}/custom/{name}": async (world) => ({
    params: { slug: "clerk", name: "tell" },
    json: { job_context: jobContext(await world.job("tell")), job_fields: {} },
  }),
  "POST /agents/{slug}/parameters": ({ sealed }) => ({ json: { parameters_encrypted: sealed } }),
  "POST /agents/{slug}/validate-agent-parameters": ({ sealed }) => ({
    json: { encrypted_agent_parameters: sealed },
  }),
  "POST /mcp": () => ({ json: { jsonrpc: "2.0", id: 1, method: "tools/list" } }),
  "POST /a2a/{slug}": () => ({ json: { jsonrpc: "2.0", id: 1, method: "ListTasks", params: {} } }),
  "POST /a2a/{slug}/{action}": () => ({
    params: { slug: "clerk", action: "message:send" },
    json: {
      message: { messageId: "from-the-gate", role: "ROLE_USER", parts: [{ data: { mode: "tell" } }] },
      configuration: { returnImmediately: true },
    },
  }),
  "GET /a2a/{slug}/tasks": () => ({ params: { slug: "clerk" }, query: {} }),
  "GET /a2a/{slug}/tasks/{target}": async (world) => ({
    params: { slug: "clerk", target: await world.job() },
    query: {},
  }),
  "POST /a2a/{slug}/tasks/{target}": async (world) => ({
    params: { slug: "clerk", target: `${await world.job()}:cancel` },
  }),
  "POST /a2a/{slug}/tasks/{id}/pushNotificationConfigs": async (world) => ({
    params: { slug: "clerk", id: await world.job() },
    json: { url: "https://receiver.invalid/hook" },
  }),
  "GET /a2a/{slug}/tasks/{id}/pushNotificationConfigs": async (world) => ({
    params: { slug: "clerk", id: await world.job() },
  }),
  "GET /a2a/{slug}/tasks/{id}/pushNotificationConfigs/{config}": (world) => pushed(world),
  "DELETE /a2a/{slug}/tasks/{id}/pushNotificationConfigs/{config}": (world) => pushed(world),
  "POST /ag-ui/{slug}": () => ({
    json: { threadId: "of-the-gate", runId: "1", forwardedProps: { fields: { mode: "tell" } } },
  }),
  "GET /schedules/{id}": planned,
  "POST /schedules/{id}/run": planned,
  "POST /schedules/{id}/pause": planned,
  "POST /schedules/{id}/resume": planned,
  "POST /admin/api/schedules/{id}/run": planned,
  "POST /admin/api/schedules/{id}/pause": planned,
  "POST /admin/api/schedules/{id}/resume": planned,
  "GET /admin/schedules/{id}/run": planned,
  "POST /admin/schedules/{id}/run": planned,
  "GET /admin/schedules/{id}/pause": planned,
  "POST /admin/schedules/{id}/pause": planned,
  "GET /admin/schedules/{id}/resume": planned,
  "POST /admin/schedules/{id}/resume": planned,
  "POST /admin/api/jobs/{id}/restore": deleted,
  "GET /admin/deleted/{id}/restore": deleted,
  "POST /admin/deleted/{id}/restore": deleted,
  "GET /admin/deleted/{id}/erase": deleted,
  "POST /admin/deleted/{id}/erase": deleted,
  "POST /admin/api/cases/{id}/restore": deletedCase,
  "GET /admin/deleted-cases/{id}/restore": deletedCase,
  "POST /admin/deleted-cases/{id}/restore": deletedCase,
  "GET /admin/deleted-cases/{id}/erase": deletedCase,
  "POST /admin/deleted-cases/{id}/erase": deletedCase,
  "POST /admin/api/bulk/{id}/undo": deletedMany,
  "POST /admin/bulk/{id}/undo": deletedMany,
  "POST /jobs/{id}/continue": held,
  "POST /jobs/{id}/move": moved,
  "POST /jobs/{id}/fork": forked,
  "POST /admin/api/jobs/{id}/continue": held,
  "POST /admin/api/jobs/{id}/move": moved,
  "POST /admin/api/jobs/{id}/fork": forked,
  "POST /admin/jobs/{id}/fork": forked,
  "POST /admin/jobs/{id}/continue": held,
  "POST /admin/jobs/{id}/restart": held,
  "POST /jobs/{id}/resume": limited,
  "POST /jobs/{id}/retry": failed,
  "POST /jobs/{job_id}/cases/{case_id}/update": () => answer,
  "POST /admin/api/jobs/{id}/resume": limited,
  "POST /admin/api/jobs/{id}/retry": failed,
  "POST /admin/api/cases/{id}/answer": () => answer,
  "POST /admin/api/bulk": async (world) => ({
    json: { kind: "jobs", action: "stop", ids: [await world.job()] },
  }),
  "POST /admin/api/bulk/{id}/run": run,
  "GET /admin/api/jobs/rows": async (world) => ({ query: { ids: await world.job() } }),
  "GET /admin/api/cases/rows": async (world) => ({ query: { ids: await caseOf(world, await world.job()) } }),
  "GET /admin/x/{path}": () => ({ params: { path: "guest" } }),
  "GET /admin/assets/{hash}/{file}": async ({ server }) => {
    const page = await (await server.request("/admin/", { headers: { accept: "text/html" } })).text();
    const [, hash = "", file = ""] = /\/admin\/assets\/([^/"]+)\/([^"#]+)/.exec(page) ?? [];
    return { params: { hash, file } };
  },
  "GET /admin/sign-in/program": () => ({ query: PROGRAM }),
  "POST /admin/sign-in/program": () => ({ form: PROGRAM }),
  "POST /admin/api/sign-in/program": async (world) => ({
    json: { link: (await token(world)).token, program: PROGRAM.program },
  }),
  "GET /admin/sign-in": async (world) => ({ query: await token(world) }),
  "POST /admin/sign-in": async (world) => ({ form: await token(world) }),
  ...Object.fromEntries(
    ["pause", "resume"].flatMap((action) =>
      ["/admin/api", "/admin"].map((place) => [
        `POST ${place}/agents/{slug}/${action}`,
        () => ({ params: { slug: "talker" } }),
      ]),
    ),
  ),
  "POST /admin/api/failures/{failure}/mark": async (world) => ({
    params: await reasonOf(world),
    json: { state: "muted" },
  }),
  "POST /admin/failures/{failure}/mark": async (world) => ({
    params: await reasonOf(world),
    form: { state: "muted" },
  }),
  "POST /admin/api/views": () => ({ json: { name: "Failed", query: "status=failed" } }),
  "POST /admin/views": () => ({ form: { name: "Failed", query: "status=failed" } }),
  "DELETE /admin/api/views/{id}": async ({ server }) => {
    const json = { name: "Failed", query: "status=failed" };
    const { id } = (await (await server.request("/admin/api/views", { json })).json()) as { id: string };
    return { params: { id } };
  },
  "GET /answer": async (world) => ({ query: { token: (await linked(world)).token } }),
  "GET /answer/files/{sha256}": async (world) => ({
    params: { sha256: NOTE_HASH },
    query: { token: (await linked(world)).token },
  }),
  "POST /answer": async (world) => ({
    form: { token: (await linked(world)).token, "f.approved": "true" },
  }),
  "POST /admin/api/cases/{id}/links": () => ({ json: { name: "Mira" } }),
  "POST /admin/cases/{id}/links": () => ({ form: { name: "Mira", expires_in: "1d" } }),
  "DELETE /admin/api/cases/{id}/links/{link}": linked,
  "POST /admin/cases/{id}/links/{link}/revoke": linked,
  "POST /admin/session": ({ key }) => ({ form: { key, name: "Ada" } }),
  "POST /admin/agents/{slug}/start": () => ({ form: { "f.mode": "tell" } }),
  "POST /admin/cases/{id}/answer": async (world) => {
    const { id, question } = await openCaseOf(world, await world.job());
    return { params: { id }, form: { "f.approved": "true", question_id: question?.id ?? "" } };
  },
  "POST /admin/cases/{id}/alike": async (world) => {
    const { id, question } = await openCaseOf(world, await world.job());
    return { params: { id }, form: { "f.approved": "true", pick: `${id} ${question?.id ?? ""}` } };
  },
  "POST /admin/cases/{id}/status": () => ({ form: { status: "failed" } }),
  "POST /admin/jobs/{id}/status": () => ({ form: { status: "failed" } }),
  "POST /admin/jobs/{id}/resume": limited,
  "POST /admin/jobs/{id}/retry": failed,
  "POST /admin/bulk": async (world) => ({ form: { kind: "jobs", action: "stop", id: await world.job() } }),
  "POST /admin/bulk/{id}/run": run,
  "POST /admin/sessions": async (world) => ({ form: await sessionOf(world) }),
  "DELETE /admin/api/sessions/{id}": async (world) => ({ params: await sessionOf(world) }),
  "POST /admin/deliveries": () => ({ form: { all: "1", action: "retry" } }),
};
