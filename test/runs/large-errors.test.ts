import { CASES, JOBS, STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { jobContext, NO_LIMITS, until } from "./_jobs.ts";

const LONG = 3_000_000;
/** A secret that spans the place where a message is cut. */
const SECRET = "planted-secret-4711";
const TEXT = `${"x".repeat(4090)}${SECRET}${"y".repeat(LONG)}`;

test.each([
  ["the handler", "job"],
  ["a step of the job", "step"],
  ["a step of a case", "case step"],
  ["a case that failed", "fail"],
  ["an update", "update"],
] as const)(
  "only the start of an error of some megabytes, reported by %s, is stored, without secrets",
  async (_what, where) => {
    const agent = agentOf(
      async ({ job }) => {
        const item = await job.openCase({ id: "a", name: "a" });
        const fail = (): never => {
          throw new Error(TEXT, { cause: new Error(TEXT) });
        };
        if (where === "job") fail();
        if (where === "step") await job.step("fails", fail);
        if (where === "case step") await item.step("fails", fail);
        if (where === "fail") await item.fail(new Error(TEXT));
        if (where === "update") await item.update({ name: "odd", error: TEXT });
      },
      { parameters: [{ name: "TOKEN", value: SECRET }] },
    );
    await using server = await testServer({ agents: [agent] });
    const { service } = server;
    const job_context = { ...jobContext("j"), job_instructions: { ...NO_LIMITS, stop_on_error: true } };
    await server.request("/agents/worker/jobs", { json: { job_context, job_fields: {} } });
    const job = await until(service, "j", ["failed"]);

    const stored = [
      job,
      await service.get(CASES).get("a"),
      await service.get(STORE).table("Case").get("a"),
      await service.get(JOBS).log("j"),
    ].map((one) => JSON.stringify(one));
    expect(Math.max(...stored.map(({ length }) => length))).toBeLessThan(60_000);
    expect(job.error).toContain("xxxxx");
    expect(job.error).toContain("(cut: it has 30");
    expect(stored.join("")).not.toContain("planted-");
  },
);
