import { ADMIN, html, type Plugin } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { audit } from "../../examples/audit-plugin/audit.ts";
import { greeter } from "../_setup.ts";
import { seedJob } from "./_seed.ts";
import { postForm, signIn } from "./_sign-in.ts";

it("a plugin's page and card are shown in the admin interface", async () => {
  await using server = await testServer({ agents: [greeter], plugins: [audit()] });
  await seedJob(server.service, { id: "job-1", status: "completed" });
  const cookie = await signIn(server, "Ada <Lovelace>");
  await postForm(server, "/admin/jobs/job-1/status", { status: "failed" }, { cookie });

  const page = await server.request("/admin/x/audit", { headers: { accept: "text/html" } });
  const data = await server.request("/admin/x/audit", { headers: { accept: "application/json" } });
  const dashboard = await server.request("/admin/", { headers: { accept: "text/html" } });
  const text = await page.text();
  const board = await dashboard.text();

  expect(text).toContain("completed → failed");
  expect(text).toContain("Ada &lt;Lovelace&gt;");
  expect(await data.json()).toMatchObject({ items: [{ what: "completed → failed", job: "job-1" }] });
  expect(board).toContain("Changes: 1, by people: 1.");
  expect(board).toContain('href="/admin/x/audit"');
});

it("a failing card shows its failure, and the dashboard still works", async () => {
  await using server = await testServer({
    agents: [greeter],
    plugins: [
      {
        name: "broken",
        dependsOn: ["admin"],
        setup: (context) =>
          context.get(ADMIN).addCard({
            title: "Broken",
            render: () => {
              throw new Error("no card today");
            },
          }),
      },
    ],
  });

  const response = await server.request("/admin/", { headers: { accept: "text/html" } });
  const text = await response.text();

  expect(response.status).toBe(200);
  expect(text).toContain("This card could not be rendered");
  expect(text).not.toContain("no card today");
  expect(server.logs.join("")).toContain("no card today");
});

it.each([
  ["a path that is not one", "Not A Path"],
  ["a path that is taken", "audit"],
  ["a path that is taken, with a slash", "/audit"],
  ["a path of two parts", "/audit/all"],
])("%s is refused when the plugin is set up", async (_, path) => {
  const page = { path, title: "Page", render: () => html`` };
  const plugin = {
    name: "pages",
    dependsOn: ["audit", "admin"],
    setup: (context: Parameters<NonNullable<ReturnType<typeof audit>["setup"]>>[0]) =>
      context.get(ADMIN).addPage(page),
  };

  await expect(testServer({ agents: [greeter], plugins: [audit(), plugin] })).rejects.toThrow(/Admin page/);
});

it("a page's path may begin with a slash", async () => {
  const onCall: Plugin = {
    name: "on-call",
    dependsOn: ["admin"],
    setup: ({ get }) =>
      get(ADMIN).addPage({ path: "/on-call", title: "On call", render: () => html`<p>Ada</p>` }),
  };
  await using server = await testServer({ agents: [greeter], plugins: [onCall] });

  const page = await server.request("/admin/x/on-call", { headers: { accept: "text/html" } });

  expect(page.status).toBe(200);
  expect(await page.text()).toMatch(/href="\/admin\/x\/on-call"[\s\S]*<p>Ada<\/p>/);
});

it("the example plugin stores changes in a table, and its hook and its route report them", async () => {
  const told: unknown[] = [];
  const listener: Plugin = {
    name: "listener",
    setup: ({ hooks }) => void hooks.on("audit:noted", (change) => void told.push(change)),
  };
  await using server = await testServer({ agents: [greeter], plugins: [audit({ most: 1 }), listener] });
  await seedJob(server.service, { id: "job-1", status: "completed" });
  await seedJob(server.service, { id: "job-2", status: "completed" });
  const cookie = await signIn(server, "Ada");
  await postForm(server, "/admin/jobs/job-1/status", { status: "failed" }, { cookie });
  await postForm(server, "/admin/jobs/job-2/status", { status: "failed" }, { cookie });

  const changes = (await (await server.request("/changes")).json()) as unknown[];

  expect(told).toMatchObject([{ job: "job-1" }, { job: "job-2" }]);
  expect(changes).toMatchObject([{ what: "completed → failed", job: "job-2" }]);
  await expect(testServer({ agents: [greeter], plugins: [audit({ most: 0 })] })).rejects.toThrow(
    'Plugin "audit" cannot use its options: option most must be at least 1',
  );
});
