// @alone
// @area core
import { JOBS } from "agent-control-service/plugin";
import { expect, it, onTestFinished, vi } from "vitest";
import { borrowSchema, giveBackSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { startOnDatabase } from "./_database.ts";

const HOUR = 3_600_000;

requirement("postgres").describe("instances whose machines' clocks differ by hours", () => {
  it("have their jobs in the order in which they were started, with the times of the database", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    onTestFinished(() => giveBackSchema(schema));
    const sleeper = agentOf(async ({ job }) => {
      await job.sleep("300ms");
      return "slept";
    });
    const start = () => startOnDatabase({ url: cluster.url, schema }, { agents: [sleeper] });
    const [one, other] = [await start(), await start()];
    const began = Date.now();
    onTestFinished(() => void vi.useRealTimers());

    const ids: string[] = [];
    for (const [{ service }, hours] of [
      [one, 3],
      [other, -2],
      [one, 1],
      [other, 0],
    ] as const) {
      vi.useFakeTimers({ toFake: ["Date"], now: began + hours * HOUR });
      ids.push((await startJob(service)).id);
    }

    for (const id of ids) expect(await until(one.service, id)).toMatchObject({ result: "slept" });
    const { items } = await other.service.get(JOBS).list({ sort: "created_at" });
    expect(items.map(({ id }) => id)).toEqual(ids);
    for (const { created_at, finished_at } of items) {
      expect(Math.abs(Date.parse(created_at) - began)).toBeLessThan(HOUR / 4);
      expect(Date.parse(finished_at!) - Date.parse(created_at)).toBeGreaterThanOrEqual(300);
    }
  });
});
