import { readFileSync } from "node:fs";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";
import { ROUTER, type RouteDefinition } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { describeServer, greeter } from "../_setup.ts";

/**
 * What ignores members that it does not know, and why; docs/api.md says the same. Where a route is not listed, it refuses
 * them.
 */
const IGNORED: readonly { route: RegExp; part: "body" | "query"; reason: RegExp }[] = [
  { route: /^GET \/\.well-known\/health$/, part: "query", reason: /health.*probes/i },
  { route: /^POST \/v1\/(chat\/completions|responses)$/, part: "body", reason: /OpenAI/ },
  { route: /^\w+ \/v1\//, part: "query", reason: /OpenAI/ },
  { route: /^\w+ \/a2a\//, part: "query", reason: /Agent2Agent/ },
  { route: /^GET \/\.well-known\/agent-card\.json$/, part: "query", reason: /Agent2Agent/ },
  { route: /^POST \/a2a\//, part: "body", reason: /Agent2Agent/ },
  { route: /^POST \/mcp$/, part: "body", reason: /Model Context Protocol/ },
  { route: /^POST \/ag-ui\//, part: "body", reason: /AG-UI/ },
  { route: /^POST \/chat\/\{slug\}$/, part: "body", reason: /AI SDK/ },
  { route: /^\w+ \/chat\//, part: "query", reason: /AI SDK/ },
  {
    ...{ route: /^(POST|PATCH) \/(v1\/files|files|jobs\/\{id\}\/uploads)\b/, part: "body" },
    reason: /content of a file/,
  },
];

const plugins = [a2a({ publicCards: true }), mcp(), agUi()];

function start() {
  return testServer({ agents: [greeter], plugins, publicUrl: "https://agents.example.com" });
}

function documented(server: TestServer): RouteDefinition[] {
  return server.service.get(ROUTER).routes.filter(({ hidden }) => !hidden);
}

/** A path that a route matches; which job or case it names is read after the envelope. */
function pathOf({ path }: RouteDefinition): string {
  return path.replace("{slug}", "greeter").replaceAll(/\{\w+\}/g, "none");
}

const UNKNOWN = "not_a_member";

async function send(server: TestServer, route: RouteDefinition, part: "body" | "query") {
  const search = part === "query" ? `?${UNKNOWN}=1` : "";
  const hasBody = part === "body" || (route.body !== undefined && route.method !== "GET");
  const response = await server.request(pathOf(route) + search, {
    method: route.method,
    redirect: "manual",
    ...(hasBody && {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(part === "body" ? { [UNKNOWN]: 1 } : {}),
    }),
  });
  const isStream = response.headers.get("content-type")?.includes("event-stream");
  const text = isStream ? "" : await response.text();
  if (isStream) await response.body?.cancel();
  return { status: response.status, text };
}

const isRefused = (
  { status, text }: { status: number; text: string },
  part: string,
  { errors }: Pick<RouteDefinition, "errors">,
) =>
  // Protocols with errors of their own have no 422.
  status === (errors ? 400 : 422) &&
  (text.includes(`${UNKNOWN} is not known`) ||
    text.includes(`${UNKNOWN} is not accepted here`) ||
    text.includes("accepts no body") ||
    (part === "body" && text.includes("the body must be a string")));

it.each(["body", "query"] as const)(
  "every documented route refuses a member of its %s that it does not know, unless the table says why",
  async (part) => {
    await using server = await start();
    const unexpected: string[] = [];
    const routes = documented(server);
    expect(routes.length).toBeGreaterThan(100);

    for (const route of routes) {
      if (part === "body" && route.method === "GET") continue;
      const name = `${route.method} ${route.path}`;
      const mayIgnore = IGNORED.some((one) => one.part === part && one.route.test(name));
      const answer = await send(server, route, part);
      if (isRefused(answer, part, route) === mayIgnore)
        unexpected.push(`${name}: ${answer.status} ${answer.text}`);
    }

    expect(unexpected).toEqual([]);
  },
);

it("every line of the table is about a route, and in the documentation with its reason", async () => {
  await using server = await start();
  const names = documented(server).map(({ method, path }) => `${method} ${path}`);
  const docs = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");

  for (const { route, reason } of IGNORED) {
    expect(names.some((name) => route.test(name))).toBe(true);
    expect(docs).toMatch(reason);
  }
});

describeServer("an envelope", ({ start }) => {
  it.each([
    [{ fields: { name: "Ada" } }, "fields is not known: did you mean job_fields?"],
    [{ jobFields: { name: "Ada" } }, "jobFields is not known: did you mean job_fields?"],
    [
      { job_fields: { name: "Ada" }, job_context: { job_instruktions: { max_cost: 1 } } },
      "job_context.job_instruktions is not known: did you mean job_instructions?",
    ],
    [
      { job_fields: { name: "Ada" }, job_context: { job_instructions: { max_cots: 1 } } },
      "job_context.job_instructions.max_cots is not known: did you mean max_cost?",
    ],
  ])(
    "of a start with the unknown member %j starts nothing, and names what was meant",
    async (json, detail) => {
      await using server = await start();

      const refused = await server.request("/agents/greeter/jobs", { json });

      expect(refused.status).toBe(422);
      expect(await refused.json()).toMatchObject({ error_type: "invalid_request", detail });
      expect(await (await server.request("/jobs")).json()).toEqual([]);
    },
  );

  it("of an event that is the sender's own body stores no empty event", async () => {
    await using server = await start();

    const refused = await server.request("/events/payment", { json: { order: "o-1", amount: 11 } });

    expect(refused.status).toBe(422);
    expect(await refused.json()).toMatchObject({
      detail: "order is not known here, only data, id; amount is not known here, only data, id.",
    });
    expect(await (await server.request("/events")).json()).toEqual([]);
  });

  it.each(["/jobs?stauts=failed", "/agents/greeter/jobs?stauts=failed"])(
    "of a list with a misspelled filter is refused: %s",
    async (path) => {
      await using server = await start();

      const refused = await server.request(path);

      expect(refused.status).toBe(422);
      expect(await refused.json()).toMatchObject({ detail: "stauts is not known: did you mean status?" });
    },
  );

  it("with unknown members beside missing ones names both, at most twenty, and cuts long names", async () => {
    await using server = await start();
    const many = Object.fromEntries(
      Array.from({ length: 50 }, (_, at) => [`member${at}`.padEnd(5000, "x"), 1]),
    );

    const answer = await server.request("/jobs/none/cases/none/update", { json: { answr: {} } });
    const flood = await server.request("/jobs/none/messages", { json: many });

    expect(await answer.json()).toMatchObject({
      detail: "answr is not known: did you mean answer?; answer is missing.",
    });
    expect(((await flood.json()) as { detail: string }).detail.length).toBeLessThan(4000);
  });

  it("of a permanent deletion that is misspelled deletes nothing", async () => {
    await using server = await start();
    const { job } = await server.run(greeter, { fields: { name: "Ada" } });

    const refused = await server.request(`/admin/api/jobs/${job.id}?permanant=true`, { method: "DELETE" });

    expect(refused.status).toBe(422);
    expect((await server.request(`/jobs/${job.id}`)).status).toBe(200);
  });

  it("to a route without a body may be an empty object, as some clients always send one", async () => {
    await using server = await start();

    const empty = await server.request("/utils/resume", { json: {} });
    const more = await server.request("/utils/resume", { json: { after: "10m" } });

    expect([empty.status, more.status]).toEqual([200, 422]);
  });
});
