// @alone
// @long
// @losses
import { testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import type { Schedule } from "../../src/core/models/schedule.ts";
import { project } from "../cli/_svc.ts";
import { agentOf } from "./_agent.ts";
import { ServiceProcess } from "./_process.ts";

/** Each takes more than a second. */
const ROUNDS = Math.ceil(Number(process.env.SVC_KILL_ROUNDS ?? 40) / 4);

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const ticker = defineAgent({
  name: "Ticker", version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.step("tick", () => job.id) } },
});
export default createServer({
  agents: [ticker],
  schedules: [{ id: "tick", cron: "* * * * * *", agent: ticker, overlap: process.env.OVERLAP }],
  shutdownGrace: 0,
});
`;

/** Waits until around the next planned time: some are just over, some about to come. */
function nearNextTime(round: number): Promise<void> {
  const spread = ((round * 37) % 60) - 30;
  return new Promise((resolve) => setTimeout(resolve, 1000 - (Date.now() % 1000) + spread));
}

test(`a service killed ${ROUNDS} times around its planned times starts each of them exactly once`, async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  for (let round = 0; round < ROUNDS; round++) {
    await nearNextTime(round);
    await service.kill();
    await service.start(round % 2 ? { OVERLAP: "queue" } : {});
  }
  const paused = (await (await service.send("/schedules/tick/pause", {})).json()) as Schedule;

  const list = async () =>
    (await (await service.send("/jobs?limit=1000")).json()) as {
      job_id: string;
      status: string;
      payload: unknown;
    }[];
  await expect.poll(async () => (await list()).filter(({ status }) => status !== "completed")).toEqual([]);
  const ids = (await list()).map(({ job_id }) => job_id).sort();
  const toTime = (id: string) =>
    Date.parse(id.replace(/^tick-(....)(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z"));

  const first = toTime(ids[0]!);
  const planned = Array.from(ids, (_, n) => new Date(first + n * 1000).toISOString());
  expect(ids.map((id) => new Date(toTime(id)).toISOString())).toEqual(planned);
  // A round takes a second or more; the first one may begin just before a planned time.
  expect(ids.length).toBeGreaterThan(ROUNDS / 2);
  expect(planned.at(-1)).toBe(paused.last?.at);
});

test("a planned job whose agent lacks a parameter starts once it is there", async () => {
  const agent = agentOf(({ parameters }) => parameters.TOKEN, {
    parameters: [{ name: "TOKEN", is_required: true, is_environment: true }],
  } as never);
  delete process.env.TOKEN;
  onTestFinished(() => void delete process.env.TOKEN);
  await using server = await testServer({ agents: [agent], schedules: [{ cron: "0 * * * *", agent }] });
  const show = async () => (await server.request("/schedules/worker")).json();

  await server.advance("1h");
  expect(await show()).toMatchObject({ last: null, problem: expect.stringContaining("TOKEN") });
  expect(server.logs.filter((line) => line.includes("cannot start yet"))).toHaveLength(1);
  process.env.TOKEN = "some-token-value";
  await server.advance("2m");

  await expect.poll(show).toMatchObject({ last_job: { status: "completed" } });
});
