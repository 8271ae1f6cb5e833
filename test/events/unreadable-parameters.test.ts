import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { jobContext } from "../runs/_jobs.ts";

it("a job with unreadable parameters is refused with the same 422, whatever the reason, and not created", async () => {
  await using server = await testServer({ agents: [greeter] });
  await using other = await testServer({ agents: [greeter], rsaPrivateKey: undefined });
  const encrypt = async (service: typeof server): Promise<string> => {
    const text = JSON.stringify({ TOKEN: "planted-value-4711" });
    return (await service.request("/utils/encrypt", { json: text })).json() as Promise<string>;
  };
  const good = Buffer.from(await encrypt(server), "base64");
  const padding = Buffer.from(good);
  padding[padding.length - 1]! ^= 0xff;
  const broken = [
    good.subarray(0, 300).toString("base64"),
    await encrypt(other),
    padding.toString("base64"),
    "###",
  ];

  const answers = await Promise.all(
    broken.map((encrypted_agent_parameters, at) =>
      server.request("/agents/greeter/jobs", {
        json: { job_context: jobContext(`broken-${at}`), job_fields: {}, encrypted_agent_parameters },
      }),
    ),
  );

  expect(answers.map(({ status }) => status)).toEqual([422, 422, 422, 422]);
  const bodies = (await Promise.all(answers.map((one) => one.json()))) as {
    error: string;
    error_type: string;
  }[];
  expect(new Set(bodies.map(({ error, error_type }) => `${error_type} ${error}`)).size).toBe(1);
  expect((await server.service.get(JOBS).list()).total).toBe(0);
  expect(server.logs.join("")).not.toContain("planted-value-4711");
});
