// @area core
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { RUNNER } from "../../src/core/service/tokens.ts";
import { startInstances } from "./_instances.ts";

const api = async (server: TestServer, path: string) =>
  (await (await server.request(`/admin/api/${path}`)).json()) as Record<string, unknown>;
const page = async (server: TestServer, path: string) =>
  (await server.request(`/admin/${path}`, { headers: { accept: "text/html" } })).text();

it("the Server page lists the living instances with agents, load and last sign of life", async () => {
  const [one, other] = await startInstances([{}, { maxConcurrentJobs: 3 }]);
  const ids = [one, other].map(({ service }) => service.get(RUNNER).instance);

  const { instances } = await api(other, "server");
  const html = await page(other, "server");

  expect(instances).toHaveLength(2);
  expect(instances).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ id: ids[0], current: false, places: 16, agents: ["greeter@1.0.0"] }),
      expect.objectContaining({ id: ids[1], current: true, places: 3, running: 0 }),
    ]),
  );
  for (const id of ids) expect(html).toContain(id!.slice(0, 8));
});

it("the console names the instance whose lines it has", async () => {
  const [one, other] = await startInstances([{}, {}]);

  for (const server of [one, other]) {
    const { instance } = server.service.get(RUNNER);
    expect(await api(server, "console")).toMatchObject({ instance });
    expect(await page(server, "console")).toContain(`instance ${instance!.slice(0, 8)} on `);
  }
});

it("the figures of the dashboard count jobs of all instances", async () => {
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  const [one, other] = await startInstances([{ clock }, { clock }]);
  const count = async (server: TestServer) => {
    const { hours } = (await api(server, "dashboard")) as { hours: { counts: { completed: number } }[] };
    return hours.reduce((sum, { counts }) => sum + counts.completed, 0);
  };
  await one.run("greeter", { fields: { name: "Ada" } });
  expect(await count(other)).toBe(1);

  await one.run("greeter", { fields: { name: "Bob" } });
  ahead += 10_000;

  expect(await count(other)).toBe(2);
});
