import type { JobStartContext } from "agent-control-service";
import { CASES } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

type Work = (context: JobStartContext) => unknown;

const soon = () => new Promise((resolve) => setTimeout(resolve, 5));
const CALLS: readonly (readonly [string, Work])[] = [
  ["step", ({ job }) => job.step("inner", () => 1)],
  ["open_case", ({ job }) => job.openCase({ id: "inner", name: "inner" })],
  ["sleep", ({ job }) => job.sleep(1)],
];

test.each(
  CALLS.flatMap(([call, work]) => [[call, "immediately", work] as const, [call, "later", work] as const]),
)(
  "%s inside a step's function, %s, is refused and ends the job, even if the error is ignored",
  async (call, when, work) => {
    const agent = agentOf((context) =>
      context.job.step("outer", async () => {
        if (when === "later") await soon();
        await Promise.resolve(work(context)).catch(() => {});
      }),
    );
    await using server = await testServer({ agents: [agent] });

    const { id } = await startJob(server.service);
    const job = await until(server.service, id);

    expect(job).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
    expect(job.error).toMatch(new RegExp(`${call} .*inside step "outer".*before or after`));
  },
);

test.each(["update", "close", "ask"] as const)(
  "%s of a case inside another's step is refused",
  async (call) => {
    const agent = agentOf(async ({ job }) => {
      const [a, b] = await Promise.all(["a", "b"].map((id) => job.openCase({ id, name: id })));
      await b!.step("outer", async () => {
        await soon();
        if (call === "update") await a!.update({ name: "inner" });
        if (call === "close") await a!.close();
        if (call === "ask") await a!.ask({ question: "inner", fields: [{ name: "text" }] });
      });
    });
    await using server = await testServer({ agents: [agent] });

    const { id } = await startJob(server.service);
    const job = await until(server.service, id);

    expect(job.error).toMatch(new RegExp(`${call} ".*" of case "a" is called inside step "outer"`));
    expect((await server.service.get(CASES).get("a")).updates.map(({ name }) => name)).not.toContain("inner");
  },
);

test("concurrent steps, and calls beside a running step, keep working", async () => {
  const [begun, goOn] = [gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    const items = await Promise.all(["a", "b", "c"].map((id) => job.openCase({ id, name: id })));
    const slow = job.step("slow", async () => {
      begun.open();
      await goOn.opened;
      return [await job.read(), await job.openCase({ id: "a", name: "a" })].length;
    });
    await begun.opened;
    const sums = await Promise.all(
      items.map(async (item, n) => {
        const one = await item.step("first", () => soon().then(() => n));
        const two = await item.step("second", () => n);
        await item.update({ name: "between" });
        await item.close();
        return one + two;
      }),
    );
    goOn.open();
    return [...sums, await slow, ...(await Promise.all([job.step("x", soon), job.step("y", () => 1)]))];
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);

  expect(await until(server.service, id)).toMatchObject({
    status: "completed",
    result: [0, 2, 4, 2, null, 1],
  });
});

test.each([
  ["found before the function waits", false, "failed"],
  ["not found after it has waited", true, "completed"],
] as const)("without strictSteps such a call is %s", async (_what, waits, status) => {
  const agent = agentOf(({ job }) =>
    job.step("outer", async () => {
      if (waits) await soon();
      await job.step("inner", () => 1);
    }),
  );
  await using server = await testServer({ agents: [agent], strictSteps: false });

  const { id } = await startJob(server.service);

  expect(await until(server.service, id)).toMatchObject({ status });
});
