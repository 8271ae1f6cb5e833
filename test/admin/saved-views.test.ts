import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { seedJob } from "./_seed.ts";
import { postForm, signIn } from "./_sign-in.ts";

let server: TestServer;
let cookie: string;
beforeAll(async () => {
  server = await testServer({ agents: [greeter] });
  cookie = await signIn(server, "Ada");
  await seedJob(server.service, { id: "lost", status: "failed" });
  await seedJob(server.service, { id: "sent", status: "completed" });
});
afterAll(() => server[Symbol.asyncDispose]());

const page = async (path: string) =>
  (await fetch(server.url + path, { headers: { cookie, accept: "text/html" } })).text();
const views = async () =>
  ((await (await server.request("/admin/api/views")).json()) as { items: { id: string; name: string }[] })
    .items;

it("filters are saved under a name for everybody, replaced under the same name, and removed", async () => {
  const form = { name: " Dear failures ", query: "limit=25&sort=-total_cost&status=failed&search=" };
  const saved = await postForm(server, "/admin/views", form, { cookie });
  const listed = await page(saved.headers.get("location")!);
  const other = await server.request("/admin/api/views", {
    json: { name: "dear FAILURES", query: "status=failed&min_cost=0" },
  });

  expect([saved.status, saved.headers.get("location")]).toEqual([
    303,
    "/admin/jobs?sort=-total_cost&status=failed",
  ]);
  expect(listed).toMatch(
    /href="\/admin\/jobs\?sort=-total_cost&(amp;)?status=failed" aria-current="true"><bdi title="Dear failures">Dear failures</,
  );
  expect(listed).toContain("row-lost");
  expect(listed).not.toContain("row-sent");
  expect(await other.json()).toMatchObject({ query: "min_cost=0&status=failed", by: "api-key" });
  expect((await views()).map(({ name }) => name)).toEqual(["dear FAILURES"]);

  const [{ id } = { id: "" }] = await views();
  const removed = await postForm(server, `/admin/views/${id}/remove`, {}, { cookie });
  expect([removed.status, await views()]).toEqual([303, []]);
  expect((await server.request(`/admin/api/views/${id}`, { method: "DELETE" })).status).toBe(404);
});

it.each([
  [{ name: "", query: "" }, "name"],
  [{ name: "x", query: "statuss=failed" }, "statuss"],
  [{ name: "x", query: "status=lost" }, "status"],
])("a view %j is refused with the cause", async (json, cause) => {
  const response = await server.request("/admin/api/views", { json });

  expect([response.status, ((await response.json()) as { detail: string }).detail]).toEqual([
    422,
    expect.stringContaining(cause),
  ]);
});
