import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startOf } from "../../src/plugins/admin/zones.ts";
import { greeter } from "../_setup.ts";
import { seedJob } from "./_seed.ts";
import { signIn } from "./_sign-in.ts";

it.each([
  ["2026-01-31", undefined, "2026-01-31T00:00:00.000Z"],
  ["2026-01-31T09:30:00Z", "Asia/Tokyo", "2026-01-31T09:30:00.000Z"],
  ["2026-01-31", "Asia/Tokyo", "2026-01-30T15:00:00.000Z"],
  ["2026-07-01", "America/New_York", "2026-07-01T04:00:00.000Z"],
  ["2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00.000Z"],
  ["2026-03-30", "Europe/Berlin", "2026-03-29T22:00:00.000Z"],
  ["2026-10-26", "Europe/Berlin", "2026-10-25T23:00:00.000Z"],
  // The clocks skip midnight, or have it twice.
  ["2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00.000Z"],
  ["2026-11-01", "America/Havana", "2026-11-01T04:00:00.000Z"],
  ["2026-01-31", "Asia/Kathmandu", "2026-01-30T18:15:00.000Z"],
])("%s in zone %s begins at %s", (day, zone, begins) => {
  expect(new Date(startOf(day, zone)).toISOString()).toBe(begins);
});

let server: TestServer;
beforeAll(async () => {
  let now = "2026-01-30T14:30:00.000Z";
  server = await testServer({ agents: [greeter], clock: () => new Date(now) });
  await seedJob(server.service, { id: "early" });
  now = "2026-01-30T23:30:00.000Z";
  await seedJob(server.service, { id: "late" });
});
afterAll(() => server[Symbol.asyncDispose]());

it("days of a filter begin in the zone that it names, in UTC without one", async () => {
  const found = async (query: string) => {
    const { items } = (await (await server.request(`/admin/api/jobs?${query}`)).json()) as {
      items: { id: string }[];
    };
    return items.map(({ id }) => id);
  };

  expect(await found("since=2026-01-31")).toEqual([]);
  expect(await found("since=2026-01-31&zone=")).toEqual([]);
  expect(await found("since=2026-01-31&zone=Asia/Tokyo")).toEqual(["late"]);
  expect(await found("until=2026-01-31&zone=Asia/Tokyo")).toEqual(["early"]);
  expect((await server.request("/admin/api/jobs?since=2026-01-31&zone=Mars")).status).toBe(422);
});

it("the form of the list sends the reader's zone; links, saved views and counts keep it", async () => {
  const cookie = `${await signIn(server, "Ada")}; svc-times=relative.local.Asia/Tokyo`;
  const show = async (path: string) =>
    (await fetch(server.url + path, { headers: { cookie, accept: "text/html" } })).text();

  const plain = await show("/admin/jobs");
  const filtered = await show("/admin/jobs?since=2026-01-31&zone=Asia/Tokyo");
  const empty = await show("/admin/jobs?zone=Asia/Tokyo");
  const tabs = await show("/admin/api/jobs/tabs?since=2026-01-31&zone=Asia/Tokyo&seen_at=1");

  expect(plain).toContain('<input type="hidden" name="zone" value="Asia/Tokyo">');
  expect(filtered).toContain('<span class="soft">Days in</span><b>Asia/Tokyo</b>');
  expect(filtered.match(/name="zone" value="Asia\/Tokyo"/g)).toHaveLength(1);
  expect(filtered).toMatch(/hx-get="[^"]*tabs\?since=2026-01-31&amp;zone=Asia%2FTokyo&amp;seen_at=\d+"/);
  expect(empty).not.toContain("Days in");
  expect(tabs).toMatch(/data-total="1"/);
});
