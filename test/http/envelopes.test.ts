import { PARAMETERS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { clerk } from "./_clerk.ts";
import { startBody, waitFor } from "./_client.ts";

const VALUES = '{"TOKEN":"sesame-opens"}';

async function encrypt(server: TestServer, query = ""): Promise<string> {
  const response = await server.request(`/utils/encrypt${query}`, { json: VALUES });
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as string;
}

const validate = (server: TestServer, envelope: string, headers: Record<string, string> = {}) =>
  server.request("/agents/clerk/validate-agent-parameters", {
    json: { encrypted_agent_parameters: envelope },
    headers,
  });
const begin = (server: TestServer, id: string, envelope: string, slug = "clerk") =>
  server.request(`/agents/${slug}/jobs`, {
    json: { ...startBody(id), encrypted_agent_parameters: envelope },
  });

describe("encrypted parameters", () => {
  it("are authenticated unless the older layout is requested; both are accepted", async () => {
    await using server = await testServer({ agents: [clerk] });

    const envelopes = [
      await encrypt(server),
      await encrypt(server, "?version=2"),
      await encrypt(server, "?version=1"),
    ];

    expect(envelopes.map((envelope) => envelope.startsWith("v2."))).toEqual([true, true, false]);
    for (const envelope of envelopes) {
      expect(await (await validate(server, envelope)).json()).toMatchObject({ valid: true });
    }
    expect((await server.request("/utils/encrypt?version=3", { json: VALUES })).status).toBe(422);
    expect((await server.request("/utils/encrypt?version=1&agent=clerk", { json: VALUES })).status).toBe(422);
  });

  it("for one agent cannot be opened for another one", async () => {
    const other = { ...clerk, name: "Other" };
    await using server = await testServer({ agents: [clerk, other] });
    const bound = await encrypt(server, "?agent=clerk");
    const unbound = `v2.${bound.split(".")[2]}`;
    const renamed = bound.replace("v2.clerk.", "v2.other.");

    const statuses = [];
    for (const [slug, envelope] of [
      ["clerk", bound],
      ["other", bound],
      ["other", renamed],
      ["clerk", unbound],
    ] as const) {
      statuses.push((await begin(server, `job-${statuses.length}`, envelope, slug)).status);
    }

    expect(statuses).toEqual([202, 422, 422, 422]);
    expect((await server.request("/utils/encrypt?agent=nobody", { json: VALUES })).status).toBe(404);
  });

  it("of version 1 are refused if only version 2 is accepted; stored ones keep working", async () => {
    await using folder = await testServer({ agents: [clerk] });
    const options = { agents: [clerk], store: undefined, dataDir: `${folder.dataDir}/kept` };
    let old: string;
    {
      await using server = await testServer(options);
      old = await encrypt(server, "?version=1");
      const kept = await server.request("/agents/clerk/parameters", { json: { parameters_encrypted: old } });
      expect(kept.status).toBe(200);
    }
    await using server = await testServer({ ...options, envelopes: "v2" });

    const refused = [
      await begin(server, "refused", old),
      await server.request("/agents/clerk/parameters", { json: { parameters_encrypted: old } }),
      await server.request("/utils/encrypt?version=1", { json: VALUES }),
    ];
    const checked = await validate(server, old);
    const taken = await begin(server, "taken", await encrypt(server));
    // Uses what was kept for the agent.
    await server.request("/agents/clerk/jobs", { json: startBody("kept") });

    expect(refused.map(({ status }) => status)).toEqual([422, 422, 422]);
    for (const response of refused)
      expect((await response.json()) as object).toMatchObject({
        error_type: "invalid_parameters",
        error: expect.stringContaining("only version 2"),
      });
    expect(await checked.json()).toMatchObject({ valid: false });
    expect(taken.status).toBe(202);
    expect((await waitFor(server, "kept", "completed")).status).toBe("completed");
  });

  it("of version 1 are refused after ten unreadable ones from an address, on any route, those of version 2 are not", async () => {
    let ahead = 0;
    await using server = await testServer({
      agents: [clerk],
      trustProxy: 1,
      clock: () => new Date(Date.now() + ahead),
    });
    const good = await encrypt(server, "?version=1");
    const bytes = Buffer.from(server.service.get(PARAMETERS).encrypt(VALUES, { version: 1 }), "base64");
    bytes[bytes.length - 1]! ^= 1;
    const bad = bytes.toString("base64");
    const me = { "x-forwarded-for": "198.51.100.1" };

    const first = [];
    for (let attempt = 0; attempt < 10; attempt++) first.push((await validate(server, bad, me)).status);
    const refused = await validate(server, good, me);
    const atStart = await server.request("/agents/clerk/jobs", {
      json: { ...startBody("locked"), encrypted_agent_parameters: good },
      headers: me,
    });
    const without = await server.request("/agents/clerk/jobs", { json: startBody("without"), headers: me });
    const authenticated = await validate(server, await encrypt(server), me);
    const other = await validate(server, good, { "x-forwarded-for": "198.51.100.2" });
    ahead = 10 * 60_000;
    const later = await validate(server, good, me);

    expect(first).toEqual(Array(10).fill(200));
    expect([refused.status, atStart.status, without.status]).toEqual([429, 429, 202]);
    expect([authenticated.status, other.status, later.status]).toEqual([200, 200, 200]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(500);
    expect(await refused.json()).toMatchObject({ error_type: "rate_limited" });
  });
});
