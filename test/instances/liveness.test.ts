// @long
// @losses
// @area core
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { borrowSchema, openClient, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf, gate } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { DatabaseName, startOnDatabase } from "./_database.ts";

/** A step that ends when it may, and how often it was started. */
function heldStep() {
  const held = gate();
  const step = { begun: 0, end: held.open };
  const agent = agentOf(({ job }) =>
    job.step("long", async () => {
      step.begun++;
      await held.opened;
      return "done";
    }),
  );
  return { step, agent };
}

requirement("postgres").describe("an instance on Postgres", () => {
  it("keeps its runs when the database is away for 4 seconds, again and again", async () => {
    const cluster = await sharedCluster();
    const name = await DatabaseName.of(cluster);
    const { step, agent } = heldStep();
    const { service, url, logs } = await startOnDatabase(
      { url: name.url, schema: await borrowSchema(cluster) },
      { agents: [agent] },
    );
    const { id } = await startJob(service);
    await expect.poll(() => step.begun).toBe(1);

    for (const pause of [0, 1700]) {
      await delay(pause);
      await name.cut();
      await delay(4000);
      await name.restore();
      await expect.poll(() => fetch(`${url}/.well-known/health`).then(({ ok }) => ok)).toBe(true);
    }
    await delay(2000);
    step.end();

    expect(await until(service, id)).toMatchObject({ status: "completed", result: "done" });
    expect(step.begun).toBe(1);
    expect(logs.filter((line) => line.includes("left to others"))).toEqual([]);
  });

  it("keeps its runs while tables are locked for longer than an instance may be silent", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const { step, agent } = heldStep();
    const start = () => startOnDatabase({ url: cluster.url, schema }, { agents: [agent] });
    const [one, other] = [await start(), await start()];
    const { id } = await startJob(one.service);
    await expect.poll(() => step.begun).toBe(1);

    const client = await openClient(cluster);
    await client.query(`begin; lock table ${schema}."Job", ${schema}."Instance"`);
    await delay(14_000);
    await client.query("commit");
    await delay(1500);
    step.end();

    expect(await until(one.service, id)).toMatchObject({ status: "completed", result: "done" });
    expect(step.begun).toBe(1);
    expect([...one.logs, ...other.logs].filter((line) => line.includes("left to others"))).toEqual([]);
  });
});
