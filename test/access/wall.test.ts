// @long
import { hash } from "node:crypto";
import { defineAgent, defineChat, proxyAuth } from "agent-control-service";
import { type AddedRoute, JOBS, ROUTER, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { ROLES, type Role } from "../../src/core/models/access.ts";
import { mcp } from "../../src/mcp.ts";
import { sampleOf } from "../gate/_sample.ts";
import { AUDIENCE, startIssuer } from "./_issuer.ts";

const FIRST = Number(process.env.SVC_WALL_SEED ?? 1);
const SEEDS = Number(process.env.SVC_WALL_SEEDS ?? 2);
const NOW = new Date("2031-03-04T12:00:00.000Z");
const HEADER = "x-assertion";
const WORKSPACES = ["acme", "beta"];

/** Leaves a word of its own in each place that is stored of a job. */
const worker = (name: string) =>
  defineAgent({
    name,
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ word: v.string(), to: v.optional(v.string()), end: v.string() }),
        async run({ job, fields: { word, to, end }, log }) {
          log.info(`log ${word}`);
          await job.tag(`tag-${word}`);
          const item = await job.openCase({ id: `case-${job.id}`, name: `case ${word}` });
          await item.step("emit", ({ emit }) => {
            emit(`chunk ${word}`);
            return { evidence: `evidence ${word}` };
          });
          await item.artifact("report", await job.file(`${word}.txt`, `content ${word}`), {
            title: `artifact ${word}`,
          });
          if (end === "ask") {
            const question = `question ${word}`;
            await item.ask({ question, fields: v.object({ ok: v.boolean() }), ...(to && { assignTo: to }) });
          }
          await item.close({ output: `output ${word}` });
          if (end === "fail") throw new Error(`error ${word}`);
          return `result ${word}`;
        },
      },
    },
  });
const AGENTS = ["alpha", "omega"];
const SCHEDULED = { word: "word", end: "done" };
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });

class Random {
  #seed: number;
  constructor(seed: number) {
    this.#seed = seed * 7919;
  }
  pick<T>(from: readonly T[]): T {
    this.#seed = (this.#seed * 1103515245 + 12345) % 2147483648;
    // The low bits repeat soon.
    return from[Math.floor(this.#seed / 65536) % from.length]!;
  }
}

/** Somebody who sees a part: a named key, or a person of a group whom a proxy vouches for. */
interface Caller {
  readonly name: string;
  readonly kind: "key" | "person";
  readonly role: Role;
  readonly agents?: readonly string[];
  readonly workspace?: string;
}

interface Made {
  readonly id: string;
  readonly word: string;
  readonly agent: string;
  readonly workspace: string;
  /** The key that has started it; none for the API key. */
  readonly starter: string | undefined;
  readonly to: string | undefined;
}

function makeCallers(random: Random): Caller[] {
  const one = (name: string, kind: Caller["kind"]): Caller => {
    const agents = random.pick([undefined, ["alpha"], ["omega"], ["alpha", "talker"]]);
    const workspace = random.pick([undefined, "acme", "beta"]);
    const role = random.pick(ROLES);
    const isWhole = agents === undefined && workspace === undefined;
    const seesPart = !isWhole || role === "starter" || role === "answerer";
    return {
      ...{ name, kind, role },
      ...(agents && { agents }),
      ...(seesPart ? workspace && { workspace } : { workspace: "acme" }),
    };
  };
  return [
    ...ROLES.map((role, n) => ({ ...one(`key-${n}`, "key"), role })).map((caller) =>
      caller.agents || caller.workspace || caller.role === "starter" || caller.role === "answerer"
        ? caller
        : { ...caller, workspace: "beta" },
    ),
    ...["group:red", "group:blue"].map((name) => one(name, "person")),
  ];
}

/** Whether a caller may learn of a job, said in another way than the service does. */
function mayLearn({ name, kind, role, agents, workspace }: Caller, job: Made): boolean {
  if (agents && !agents.includes(job.agent)) return false;
  if (workspace && workspace !== job.workspace) return false;
  if (role === "starter") return kind === "key" && job.starter === name;
  return role !== "answerer" || job.to === name;
}

interface World {
  readonly server: TestServer;
  readonly callers: readonly Caller[];
  readonly routes: readonly AddedRoute[];
  readonly made: Made[];
  ask(caller: Caller, request: Asked): Promise<Answer>;
  headersOf(caller: Caller): Promise<Record<string, string>>;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly json?: unknown;
  readonly headers?: Record<string, string>;
}

interface Answer {
  readonly status: number;
  /** All that is said: the body, and the headers with figures. */
  readonly text: string;
}

const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

async function open(random: Random): Promise<World> {
  const callers = makeCallers(random);
  const issuer = await startIssuer(() => NOW);
  const limitsOf = ({ role, agents, workspace }: Caller) => ({
    role,
    ...(agents && { agents }),
    ...(workspace !== undefined && { workspace }),
  });
  const keys = callers
    .filter(({ kind }) => kind === "key")
    .map((one) => ({ name: one.name, ...limitsOf(one), sha256: hash("sha256", keyOf(one.name), "hex") }));
  const people = callers.filter(({ kind }) => kind === "person").map((one) => [one.name, limitsOf(one)]);
  const { jwks, issuer: name } = issuer;
  const roles = Object.fromEntries(people) as Parameters<typeof proxyAuth>[0]["roles"];
  const signIn = proxyAuth({ jwks, issuer: name, audience: AUDIENCE, header: HEADER, roles });
  const server = await testServer({
    agents: [worker("Alpha"), worker("Omega"), talker],
    plugins: [mcp({ wait: "0s" }), a2a({ wait: "0s" }), agUi()],
    access: { keys, signIn },
    // Their jobs are in the workspace of the service, which only who is limited to no other one sees.
    schedules: AGENTS.map((agent) => ({ id: `yearly-${agent}`, cron: "@yearly", agent, fields: SCHEDULED })),
    clock: () => NOW,
    suspendAfter: false,
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const headersOf = async (caller: Caller): Promise<Record<string, string>> => {
    if (caller.kind === "key") return { "x-api-key": keyOf(caller.name) };
    const group = caller.name.replace("group:", "");
    const said = { sub: `one-${group}`, email: `one@${group}.example`, groups: [group] };
    return { [HEADER]: await issuer.sign(said) };
  };
  return {
    ...{ server, callers, made: [], headersOf },
    routes: server.service.get(ROUTER).routes,
    async ask(caller, { method, path, json, headers }) {
      const response = await fetch(server.url + path, {
        method,
        redirect: "manual",
        headers: {
          ...(await headersOf(caller)),
          ...{ "a2a-version": "1.0", accept: "application/json, text/event-stream" },
          // One that is idle may end while a request for it is on its way.
          connection: "close",
          ...(json !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      });
      // Forms have an id of their own, so that sending one twice is noticed.
      const body = (await readSome(response)).replace(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, "UUID");
      const figures = ["x-total-count", "link", "etag", "location"].map((one) => response.headers.get(one));
      return { status: response.status, text: `${figures.join(" ")}\n${body}` };
    },
  };
}

/** The text of a response; of a stream, what comes until it is silent. */
async function readSome(response: Response): Promise<string> {
  if (!response.headers.get("content-type")?.includes("event-stream")) return response.text();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), 40);
    });
    const next = await Promise.race([reader.read(), silence]);
    clearTimeout(timer);
    if (next === undefined || next.done) break;
    text += next.value;
  }
  await reader.cancel();
  return text;
}

async function start(world: World, about: Omit<Made, "id" | "word">, end: string): Promise<Made> {
  const n = world.made.length;
  // Each in its workspace has an id and a word that nothing else contains.
  const made = { ...about, id: `job-q${n}q`, word: `word-q${n}q` };
  world.made.push(made);
  const owner = world.callers.find(({ name }) => name === made.starter);
  const response = await world.server.request(`/agents/${made.agent}/jobs`, {
    key: made.starter === undefined ? world.server.key : keyOf(made.starter),
    json: {
      job_context: {
        job_id: made.id,
        ...(owner?.workspace === undefined && { workspace_id: made.workspace }),
      },
      job_fields:
        made.agent === "talker"
          ? { message: `say ${made.word}` }
          : { word: made.word, end, ...(made.to !== undefined && { to: made.to }) },
    },
  });
  if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
  return made;
}

/** Waits until no job works: those that reply or wait for a person remain open. */
async function settle({ server }: World): Promise<void> {
  const stored = async () =>
    JSON.stringify((await server.service.get(STORE).table("Job").list({ limit: 1000 })).items);
  const busy = { where: { status: ["stopped", "in_progress", "cancelling"], agent_name: AGENTS }, limit: 0 };
  let before = "";
  let same = 0;
  const isQuiet = async () => {
    const [now, { total }] = [await stored(), await server.service.get(JOBS).list(busy)];
    same = now === before && total === 0 ? same + 1 : 0;
    before = now;
    return same;
  };
  await expect.poll(isQuiet, { timeout: 60_000, interval: 50 }).toBeGreaterThan(3);
}

/** A job of somebody, where somebody may start one. */
function randomJob({ callers }: World, random: Random): Omit<Made, "id" | "word"> {
  const starters = callers.filter(({ kind, role }) => kind === "key" && /starter|operator|admin/.test(role));
  const owner = random.pick([undefined, undefined, ...starters]);
  const agent = random.pick((owner?.agents ?? [...AGENTS, "talker"]).filter((one) => one !== ""));
  const workspace = owner?.workspace ?? random.pick(WORKSPACES);
  const askable = [undefined, ...callers.filter(({ role }) => role === "answerer").map(({ name }) => name)];
  return {
    ...{ agent, workspace, starter: owner?.name },
    to: agent === "talker" ? undefined : random.pick(askable),
  };
}

const ENDS = ["ask", "ask", "done", "fail"];

/** What a route is asked for about a job. */
function pathOf(route: AddedRoute, { id, agent, word }: Pick<Made, "id" | "agent" | "word">): string {
  const isOfCase = /\/cases\/\{id\}/.test(route.path);
  const isResponse = route.path.includes("/responses/");
  const values: Record<string, string> = {
    ...{ slug: agent, job_id: id, case_id: `case-${id}`, target: id },
    id: isOfCase ? `case-${id}` : isResponse ? `resp_${id}` : id,
    sha256: hash("sha256", `content ${word}`, "hex"),
  };
  return route.path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "x");
}

const isAboutJob = ({ path }: AddedRoute) =>
  /\{(job_id|case_id|sha256|target)\}/.test(path) ||
  (path.includes("{id}") && /\/(jobs|cases|tasks|chat|responses|agents)\//.test(path));

const QUERIES: Readonly<Record<string, readonly string[]>> = {
  "/jobs": [
    "",
    "?limit=3",
    "?skip=2&limit=2",
    "?status=awaiting",
    "?status=failed&limit=1",
    "?tag=tag-word-q1q",
  ],
  "/admin/find": ["", "?q=word", "?q=job", "?q=q1q", "?q=tag-"],
  "/admin/api/find": ["?q=word", "?q=job", "?q=q2q", "?q=tag-"],
  "/admin/jobs": ["", "?status=failed", "?search=word", "?agent_name=alpha"],
  "/admin/api/jobs": ["", "?limit=2", "?search=word", "?status=awaiting"],
  "/admin/api/jobs/export": ["", "?format=json"],
  "/admin/cases": ["", "?search=word", "?status=awaiting"],
  "/admin/api/cases/export": ["", "?format=json"],
};
/** What does not say what is stored: files of the pages, signatures, figures of the process, the stream that `listen` reads. */
const NOT_STORED =
  /\/assets\/|^\/docs|openapi\.json|jwks\.json|agent-card|AgentCard|sign-in|\/answer|\/live$/;

/** Everything that a caller can read without knowing the id of a job. */
function readings({ routes }: World): Asked[] {
  const rpc = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
  const reads = routes
    .filter((route) => route.method === "GET" && !isAboutJob(route) && !NOT_STORED.test(route.path))
    .flatMap((route) => {
      const slugs = route.path.includes("{slug}") ? ["alpha", "omega", "talker"] : [""];
      const paths = slugs.map((agent) => pathOf(route, { id: "none", agent, word: "none" }));
      return paths.flatMap((path) => (QUERIES[route.path] ?? [""]).map((query) => path + query));
    })
    .map((path) => ({ method: "GET", path }));
  const pages = reads
    .filter(({ path }) => path.startsWith("/admin/") && !path.includes("/api/"))
    .map((one) => ({ ...one, headers: { accept: "text/html" } }));
  const calls = [
    ...["alpha", "omega", "talker"].map((slug) => ({ path: `/a2a/${slug}`, json: rpc("ListTasks", {}) })),
    { path: "/mcp", json: rpc("tools/list", {}), headers: { "mcp-protocol-version": "2025-06-18" } },
  ];
  return [...reads, ...pages, ...calls.map((one) => ({ method: "POST", ...one }))];
}

type View = ReadonlyMap<string, Answer>;

async function view(world: World, caller: Caller, asked: readonly Asked[]): Promise<View> {
  const answers = await Promise.all(
    asked.map(async (one) => {
      const name = `${one.method} ${one.path} ${one.headers?.accept ?? ""}`;
      return [name, await world.ask(caller, one)] as const;
    }),
  );
  return new Map(answers);
}

/** Words and ids of jobs that a text names. */
const namedIn = (text: string) => new Set([...text.matchAll(/q(\d+)q/g)].map(([, n]) => Number(n)));

/** Changes a job in ways that only who sees it may notice. */
async function disturb({ server }: World, { id, agent }: Made, random: Random): Promise<void> {
  const runner = server.service.get(RUNNER);
  const how = random.pick(["stop", "message", "retry", "delete", "schedule", "pause", "nothing"]);
  if (how === "schedule" && agent !== "talker")
    await server.request(`/schedules/yearly-${agent}/pause`, { json: {} });
  if (how === "pause") await server.request(`/admin/api/agents/${agent}/pause`, { json: {} });
  if (how === "pause") await server.request(`/admin/api/agents/${agent}/resume`, { json: {} });
  if (how === "message") await server.request(`/jobs/${id}/messages`, { json: { content: `more of ${id}` } });
  if (how === "stop") await runner.stop(id).catch(() => {});
  if (how === "retry") await server.request(`/jobs/${id}/retry`, { json: {} });
  if (how === "delete" && agent !== "talker")
    await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
}

/** Listens to the changes that the pages of a caller are notified of. */
async function listen(world: World, caller: Caller): Promise<{ end(): Promise<string> } | undefined> {
  const ending = new AbortController();
  const response = await fetch(`${world.server.url}/admin/api/live`, {
    headers: await world.headersOf(caller),
    signal: ending.signal,
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    return undefined;
  }
  let text = "";
  const read = (async () => {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) text += chunk;
  })().catch(() => {});
  return {
    async end() {
      // Pages are notified once a second.
      await new Promise((resolve) => setTimeout(resolve, 1200));
      ending.abort();
      await read;
      return text;
    },
  };
}

/** What a caller is answered about a job that it may not know, where that is not what it is answered about none. */
async function tells(world: World, caller: Caller, made: Made): Promise<string[]> {
  const wrong: string[] = [];
  const none = { ...made, id: "job-none", word: made.word };
  const table = world.server.service.get(STORE).table("Job");
  const before = JSON.stringify(await table.get(made.id));
  for (const route of world.routes.filter(isAboutJob)) {
    const json = route.method === "GET" ? undefined : route.body ? sampleOf(route.body) : {};
    const ask = (about: typeof none) =>
      world.ask(caller, {
        method: route.method,
        path: pathOf(route, about),
        ...(json !== undefined && { json }),
      });
    const [one, other] = [await ask(made), await ask(none)];
    const same = one.text.replaceAll(made.id, none.id);
    if (one.status !== other.status || same !== other.text)
      wrong.push(
        `${caller.name}: ${route.method} ${route.path} tells ${made.id}: ${one.status} ${one.text.slice(0, 200)}, not ${other.status} ${other.text.slice(0, 200)}`,
      );
  }
  if (JSON.stringify(await table.get(made.id)) !== before)
    wrong.push(`${caller.name} has changed ${made.id}`);
  return wrong;
}

const seeds = Array.from({ length: SEEDS }, (_, n) => FIRST + n);

it.each(seeds)(
  "what a caller may not see changes nothing that it reads, and is named nowhere: seed %d",
  async (seed) => {
    const random = new Random(seed);
    const world = await open(random);
    const about = world.callers.map(({ name, role, agents, workspace }) =>
      [name, role, agents?.join("+") ?? "all", workspace ?? "all"].join(" "),
    );
    for (let n = 0; n < 12; n++) await start(world, randomJob(world, random), random.pick(ENDS));
    await settle(world);
    const asked = readings(world);
    const wrong: string[] = [];
    let compared = 0;
    let views = new Map<Caller, View>();
    for (const caller of world.callers) views.set(caller, await view(world, caller, asked));

    for (let round = 0; round < 2; round++) {
      const kind = randomJob(world, random);
      const unaware = world.callers.filter((caller) => !mayLearn(caller, { ...kind, id: "", word: "" }));
      const listening = await Promise.all(unaware.map((caller) => listen(world, caller)));
      const added: Made[] = [];
      for (let n = 0; n < 3; n++) added.push(await start(world, kind, random.pick(ENDS)));
      await settle(world);
      for (const one of added) await disturb(world, one, random);
      await settle(world);
      const heard = await Promise.all(listening.map((one) => one?.end()));
      for (const [n, caller] of unaware.entries()) {
        if (/^event: (?!hello|beat)|^data: \{.*"(jobs|cases|added)"/m.test(heard[n] ?? ""))
          wrong.push(`${caller.name} hears of ${kind.agent} in ${kind.workspace}: ${heard[n]}`);
      }

      const next = new Map<Caller, View>();
      for (const caller of world.callers) {
        const now = await view(world, caller, asked);
        next.set(caller, now);
        const known = new Set(world.made.flatMap((job, n) => (mayLearn(caller, job) ? [n] : [])));
        for (const [request, { status, text }] of now) {
          const foreign = [...namedIn(text)].filter((n) => !known.has(n) && !request.includes(`q${n}q`));
          if (foreign.length > 0) wrong.push(`${caller.name}: ${request} names ${foreign.join()}`);
          if (status >= 500) wrong.push(`${caller.name}: ${request} is ${status}`);
          if (!unaware.includes(caller)) continue;
          compared++;
          const before = views.get(caller)!.get(request)!;
          if (before.text !== text || before.status !== status)
            wrong.push(
              `${caller.name}: ${request} shows that something else has changed: ${differ(before.text, text)}`,
            );
        }
      }
      views = next;
      for (const caller of unaware.slice(round, round + 2))
        wrong.push(...(await tells(world, caller, random.pick(added))));
    }
    const seen = world.callers.map((caller) => world.made.filter((job) => mayLearn(caller, job)).length);

    expect(wrong.slice(0, 40), about.join("\n")).toEqual([]);
    // Callers see something, and something is hidden from them.
    expect(compared).toBeGreaterThan(200);
    expect(seen.filter((n) => n > 0 && n < world.made.length).length).toBeGreaterThan(2);
  },
  300_000,
);

/** Where two texts differ. */
function differ(before: string, after: string): string {
  let at = 0;
  while (at < before.length && before[at] === after[at]) at++;
  const from = Math.max(0, at - 60);
  return `…${before.slice(from, at + 80)}… and …${after.slice(from, at + 80)}…`;
}
