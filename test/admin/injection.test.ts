import { defineAgent } from "agent-control-service";
import { LOGGER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { seedCase, seedJob } from "./_seed.ts";

/** Breaks out of text, of attributes in either quote, of scripts, styles and templates. */
const EVIL = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 733*977 }}\${733*977}@if(true)</title></textarea><style>*{}`;
const RAW = /<script>alert|<img src=x|onerror=alert\(2\)>|<\/textarea><style>|716141|716,141/;

const hostile = defineAgent({
  name: `Hostile ${EVIL}`,
  version: EVIL,
  description: EVIL,
  author: EVIL,
  tags: [EVIL],
  parameters: [{ name: EVIL, description: EVIL, value: "default-secret" }],
  methods: {
    job_start: {
      description: EVIL,
      fields: [
        { name: `field ${EVIL}`, description: EVIL, default: EVIL },
        { name: "choice", field_type: "ChoiceField", choices: [[EVIL, EVIL]], default: EVIL },
        { name: "many", field_type: "MultipleChoiceField", choices: [EVIL] },
        { name: "json", field_type: "JSONField", default: { [EVIL]: EVIL } },
      ],
      nodes: [{ name: EVIL, type: "validation", description: EVIL }],
      run: () => ({}),
    },
  },
});

it("no stored text becomes markup on any page", async () => {
  await using server = await testServer({ agents: [hostile], environment: `dev ${EVIL}` });
  const { service } = server;
  const agent = (await (await server.request("/admin/api/agents")).json()) as { items: { slug: string }[] };
  const slug = agent.items[0]!.slug;
  await seedJob(service, {
    id: "a",
    name: EVIL,
    agent: slug,
    status: "in_progress",
    fields: { [EVIL]: EVIL, deep: [EVIL] },
  });
  await seedCase(service, {
    job: "a",
    ref: "a-1",
    name: EVIL,
    description: EVIL,
    payload: { [EVIL]: { [EVIL]: EVIL } },
    question: EVIL,
  });
  await seedJob(service, { id: "b", name: EVIL, agent: slug, status: "failed", error: EVIL });
  await seedJob(service, { id: "c", name: EVIL, agent: EVIL, status: "completed", result: { [EVIL]: EVIL } });
  await seedJob(service, { id: "d", name: EVIL, agent: slug, status: "in_progress" });
  await seedCase(service, { job: "d", ref: "d-1", close: { [EVIL]: EVIL } });
  service.get(LOGGER).error(EVIL, { [EVIL]: EVIL, error: new Error(EVIL) });
  const query = encodeURIComponent(EVIL.slice(0, 150));
  const paths = [
    "/admin/",
    "/admin/jobs",
    `/admin/jobs?search=${query}&agent_name=${query}`,
    "/admin/jobs/a",
    "/admin/jobs/b",
    "/admin/jobs/c",
    "/admin/jobs/a/delete",
    "/admin/jobs/a/status",
    "/admin/cases",
    `/admin/cases?search=${query}`,
    "/admin/cases/a-1",
    "/admin/cases/d-1",
    "/admin/cases/a-1/delete",
    "/admin/inbox",
    "/admin/agents",
    `/admin/agents/${slug}`,
    `/admin/agents/${slug}/start`,
    `/admin/agents/${query}`,
    "/admin/console",
    `/admin/console?search=${query}&job=${query}`,
    "/admin/deliveries",
    "/admin/server",
    `/admin/${query}`,
    `/admin/x/${query}`,
  ];

  for (const path of paths) {
    const page = await server.request(path, { headers: { accept: "text/html" } });
    const fragment = await server.request(path, { headers: { "hx-request": "true" } });
    const text = (await page.text()) + (await fragment.text());

    expect([path, RAW.exec(text)?.[0]]).toEqual([path, undefined]);
    expect(text).not.toContain("default-secret");
  }
});

it("values that the sign-in form shows again are escaped", async () => {
  await using server = await testServer({ agents: [hostile] });

  const response = await server.request(`/admin/jobs?search=${encodeURIComponent(EVIL.slice(0, 150))}`, {
    key: null,
    headers: { accept: "text/html" },
  });

  expect(response.status).toBe(401);
  expect(await response.text()).not.toMatch(RAW);
});

it.each(["/admin/", "/admin/jobs/", "/admin/cases/"])(
  "an error page shows no key that somebody has put into its address: %s",
  async (path) => {
    await using server = await testServer({ agents: [greeter] });
    const headers = { accept: "text/html" };

    const page = await (await server.request(`${path}${server.key}`, { headers })).text();

    const said = [...page.matchAll(/<title>.*?<\/title>|<main.*<\/main>/gs)].join("");
    expect(said).toContain("[secret]");
    expect(said).not.toContain(server.key);
  },
);
