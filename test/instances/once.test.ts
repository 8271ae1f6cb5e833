// @area core
import { expect, it } from "vitest";
import { AUDIT, JOBS, RETENTION, STORE } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { SharedStore, startInstances } from "./_instances.ts";

const DAY = 24 * 3_600_000;
const BY = { kind: "session", session: "abc123", says: "Ada" } as const;
const distant = () => new SharedStore({ latency: 20 });

it("each planned time has one job, whichever instance starts it, and none reports a problem", async () => {
  const options = {
    schedules: [{ id: "often", cron: "* * * * * *", agent: greeter, fields: { name: "Ada" } }],
  };
  const [one, other] = await startInstances([options, options], distant());
  const times = async () =>
    (await one.service.get(JOBS).list({ limit: 100 })).items.map(({ schedule }) => schedule?.at);
  await expect.poll(async () => (await times()).length).toBeGreaterThanOrEqual(3);

  const planned = await times();

  expect(new Set(planned).size).toBe(planned.length);
  for (const { logs } of [one, other]) expect(logs.join("")).not.toMatch(/cannot start|no longer/);
});

it("the audit log is one chain, also where several instances write and trim it at the same time", async () => {
  let time = Date.parse("2026-03-01T12:00:00.000Z");
  const clock = () => new Date(time);
  const servers = await startInstances([{ clock }, { clock }], distant());
  const audits = servers.map(({ service }) => service.get(AUDIT));
  const write = () =>
    Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        audits[n % 2]!.record({ by: BY, action: "job.delete", target: { kind: "job", id: `job-${n}` } }),
      ),
    );
  for (let day = 0; day < 3; day++) {
    await write();
    time += DAY;
  }

  const trimmed = await Promise.all([
    audits[0]!.trim(time - DAY),
    audits[1]!.trim(time - 2 * DAY),
    audits[0]!.trim(time - DAY),
    write(),
  ]);

  expect(trimmed.slice(0, 3).filter((lines) => lines !== 0)).toHaveLength(1);
  expect((await audits[1]!.verify()).problem).toBeUndefined();
  expect((await audits[0]!.list({ action: "audit.trim" })).items).toHaveLength(1);
});

it("expired jobs are removed once, by whichever instance", async () => {
  let time = Date.now();
  const clock = () => new Date(time);
  const options = { clock, retention: { completed: "1h" } as const };
  const servers = await startInstances([options, options], distant());
  for (let n = 0; n < 6; n++) await servers[n % 2]!.run("greeter", { fields: { name: "Ada" } });
  time += DAY / 12;
  await servers[0].run("greeter", { fields: { name: "Bob" } });

  const removed = await Promise.all(servers.map(({ service }) => service.get(RETENTION).run()));

  expect(removed.flat().reduce((sum, { jobs }) => sum + jobs, 0)).toBe(6);
  expect(await servers[1].service.get(RETENTION).state()).toMatchObject({ jobs: 6 });
  expect(await servers[0].service.get(STORE).table("Job").ids()).toHaveLength(1);
});

it("instances that start at the same time note their key once", async () => {
  const store = distant();
  const servers = (await Promise.all([startInstances([{}], store), startInstances([{}], store)])).flat();

  await Promise.all(servers.map(({ service }) => service.close()));
  const [later] = await startInstances([{}], store);
  const audit = later.service.get(AUDIT);
  expect(servers.map(({ logs }) => logs.join("")).join("")).not.toContain("could not be stored");
  expect((await audit.list({ action: "key.changed" })).items).toEqual([]);
});
