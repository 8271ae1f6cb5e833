import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { postForm, signIn } from "./_sign-in.ts";

const breaker = defineAgent({
  name: "Breaker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "error", required: true }],
      run: ({ fields }) => {
        throw new Error(String(fields.error));
      },
    },
  },
});

type Server = Awaited<ReturnType<typeof testServer>>;

async function fail(server: Server, error: string): Promise<void> {
  const json = { job_fields: { error } };
  await server.request("/agents/breaker/jobs", { json, headers: { prefer: "wait=20" } });
}

async function reasons(server: Server) {
  const response = await server.request("/admin/api/failures");
  type Reason = {
    failure: string;
    error: string;
    last_at: string;
    state: string | null;
    mark: { state: string } | null;
  };
  return ((await response.json()) as { items: Reason[] }).items;
}

/** What is said about failures, without what is about the agent. */
async function attention(server: Server): Promise<string[]> {
  const { items } = (await (await server.request("/attention")).json()) as {
    items: { kind: string; text: string }[];
  };
  return items
    .filter(({ kind }) => kind === "failures")
    .map(({ text }) => text.replace(/ in Breaker.*?:|,.*?:/i, ":"))
    .toSorted();
}

const badgeIn = (page: string) =>
  /href="\/admin\/failures".*?<span class="count alert">(\d+)</.exec(page)?.[1] ?? "0";

async function page(server: Server, cookie: string): Promise<string> {
  return (await fetch(`${server.url}/admin/failures`, { headers: { cookie, accept: "text/html" } })).text();
}

it("a resolved reason is quiet until a job fails for it again, and a repeated request hides nothing that is new", async () => {
  let moved = 0;
  await using server = await testServer({ agents: [breaker], clock: () => new Date(Date.now() + moved) });
  const cookie = await signIn(server, "Ada");
  await fail(server, "no route to host");
  await fail(server, "no route to host");
  const [{ failure, last_at }] = (await reasons(server)) as [Awaited<ReturnType<typeof reasons>>[number]];
  moved = 5000;
  expect(await attention(server)).toEqual(["2 jobs failed for a new reason: no route to host"]);
  expect(badgeIn(await page(server, cookie))).toBe("2");

  const form = { state: "resolved", until: last_at };
  const sent = await postForm(server, `/admin/failures/${failure}/mark`, form, { cookie });
  moved = 10_000;
  expect([sent.status, sent.headers.get("location")]).toEqual([303, "/admin/failures"]);
  expect(await attention(server)).toEqual([]);
  const quiet = await page(server, cookie);
  expect(badgeIn(quiet)).toBe("0");
  expect(quiet).toContain("<summary>1 reason resolved or muted</summary>");
  expect(quiet).toMatch(/Resolved by <bdi>[^<]*Ada/);
  expect(await reasons(server)).toMatchObject([{ state: null, mark: { state: "resolved" } }]);

  await fail(server, "no route to host");
  moved = 15_000;
  const again = await server.request(`/admin/api/failures/${failure}/mark`, { json: form });
  expect(again.status).toBe(200);
  expect(await attention(server)).toEqual([
    "1 job failed again for a reason that was resolved: no route to host",
  ]);
  const back = await page(server, cookie);
  expect(badgeIn(back)).toBe("1");
  expect(back).toContain("Came back");
  expect(await reasons(server)).toMatchObject([{ state: "returned", mark: { state: "resolved" } }]);
  const lines = (await (await server.request("/admin/api/audit?action=failure.resolve")).json()) as {
    items: unknown[];
  };
  expect(lines.items).toMatchObject([{ target: { kind: "failure", id: failure }, who: { says: "Ada" } }]);
});

it("a muted reason stays quiet until it is opened again", async () => {
  let moved = 0;
  await using server = await testServer({ agents: [breaker], clock: () => new Date(Date.now() + moved) });
  await fail(server, "known trouble");
  const [{ failure }] = (await reasons(server)) as [Awaited<ReturnType<typeof reasons>>[number]];
  const mark = async (state: string) => {
    moved += 5000;
    return (await server.request(`/admin/api/failures/${failure}/mark`, { json: { state } })).json();
  };

  expect(await mark("muted")).toMatchObject({ failure, mark: { state: "muted", until: null } });
  await fail(server, "known trouble");
  await fail(server, "something else");
  expect(await attention(server)).toEqual(["1 job failed for a new reason: something else"]);
  expect(await mark("open")).toEqual({ failure, mark: null });
  expect(await attention(server)).toEqual([
    "1 job failed for a new reason: something else",
    "2 jobs failed for a new reason: known trouble",
  ]);
});

it.each([
  ["000000000000", { state: "muted" }, 404, "No job failed for this reason"],
  ["x", { state: "muted" }, 422, "failure"],
  ["000000000000", { state: "gone" }, 422, "state"],
  ["000000000000", { state: "resolved" }, 422, "until is missing"],
])("a mark of %s with %j is refused", async (failure, json, status, cause) => {
  await using server = await testServer({ agents: [breaker] });
  const response = await server.request(`/admin/api/failures/${failure}/mark`, { json });

  expect([response.status, await response.text()]).toEqual([status, expect.stringContaining(cause)]);
});
