import { defineAgent } from "agent-control-service";
import { RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { STORE } from "../../src/core/service/tokens.ts";
import { type Answered, call, follow, said } from "./_call.ts";

const fields = [{ name: "approved", field_type: "BooleanField" as const, required: true }];

/** Delivers one case, asks about another one twice, and delivers that. */
const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "order", required: true }],
      run: async ({ job, fields: { order } }) => {
        const checked = await job.openCase({ id: "check", name: "Check" });
        await checked.step("look", () => "found", { cost: 0.5 });
        await checked.close({ found: true });
        const item = await job.openCase({ id: "pay", name: "Pay" });
        const first = await item.ask({ question: `Pay ${order}?`, fields });
        await item.step("pay", () => "paid", { cost: 1 });
        const tip = await item.ask({ question: "And a tip?", fields });
        await item.close({ first, tip });
        if (order === "broken") throw new Error("The bank is closed");
        return { paid: order };
      },
    },
  },
});
const options = { agents: [payer], plugins: [a2a({ wait: "20s" })] };
const agent = "payer";
const yes = [{ data: { approved: true } }];
const stateOf = ({ result }: Answered) => result.task.status.state;

const BINDINGS = ["JSONRPC", "HTTP+JSON"] as const;

it.each(BINDINGS)(
  "a message that is sent again gets its first response, whatever has happened to its task since: %s",
  async (binding) => {
    await using server = await testServer(options);
    const send = (params: object) =>
      call(server, binding, "SendMessage", params as Record<string, unknown>, { agent });
    const begun = await send({ ...said("m0", [{ text: "9" }]), configuration: { returnImmediately: true } });
    const messages: object[] = [said("m1", [{ text: "7" }])];
    const first = [await send(messages[0]!)];
    const taskId = first[0]!.result.task.id;
    for (const id of ["m2", "m3"]) {
      messages.push(said(id, yes, { taskId }));
      first.push(await send(messages.at(-1)!));
    }
    const again: Answered[] = [];
    for (const time of [2, 3]) {
      for (const message of messages) again.push(await send(message));
      if (time === 2) await server.crash();
    }

    expect(again).toEqual([...first, ...first]);
    expect(first.map(stateOf)).toEqual([
      "TASK_STATE_INPUT_REQUIRED",
      "TASK_STATE_INPUT_REQUIRED",
      "TASK_STATE_COMPLETED",
    ]);
    const shown = first.map(({ result: { task } }) => [
      task.status.message?.parts[0].text,
      task.artifacts.map(({ name }: { name: string }) => name),
      task.metadata.cost,
    ]);
    expect(shown).toEqual([
      ["Pay 7?", ["Check"], 0.5],
      ["And a tip?", ["Check"], 1.5],
      [undefined, ["Check", "Pay", "Result"], 1.5],
    ]);
    await expect
      .poll(
        async () =>
          (await call(server, binding, "GetTask", { id: begun.result.task.id }, { agent })).result.status
            .state,
      )
      .toBe("TASK_STATE_INPUT_REQUIRED");
    expect(
      await send({ ...said("m0", [{ text: "9" }]), configuration: { returnImmediately: true } }),
    ).toEqual(begun);
    expect((await call(server, binding, "GetTask", { id: taskId }, { agent })).result.status.state).toBe(
      "TASK_STATE_COMPLETED",
    );
  },
);

it.each(BINDINGS)("a stream that is sent again has the events of the first one: %s", async (binding) => {
  await using server = await testServer(options);
  const message = said("m1", [{ text: "7" }]);
  const stream = () => follow(server, binding, { method: "SendStreamingMessage", params: message, agent });
  const first = await stream();
  const taskId = first[0].task.id;
  await call(server, binding, "SendMessage", said("m2", yes, { taskId }), { agent });

  const again = [await stream(), await stream()];

  const { status } = first.at(-1).statusUpdate;
  expect(status.state).toBe("TASK_STATE_INPUT_REQUIRED");
  expect(again).toEqual([first, first]);
  expect(await call(server, binding, "SendMessage", message, { agent })).toMatchObject({
    result: { task: { id: taskId, status, artifacts: [{ name: "Check" }] } },
  });
});

it("of a failed task that was tried again, the message gets the failure; two at the same time get the same", async () => {
  await using server = await testServer(options);
  const send = (params: object) =>
    call(server, "JSONRPC", "SendMessage", params as Record<string, unknown>, { agent });
  const message = said("m1", [{ text: "broken" }]);
  const together = await Promise.all([send(message), send(message), send(message)]);
  const taskId = together[0]!.result.task.id;
  await send(said("m2", yes, { taskId }));
  const failed = await send(said("m3", yes, { taskId }));
  expect(stateOf(failed)).toBe("TASK_STATE_FAILED");
  expect((await server.request(`/jobs/${taskId}/retry`, { method: "POST", json: {} })).status).toBeLessThan(
    300,
  );

  expect(new Set(together.map((one) => JSON.stringify(one))).size).toBe(1);
  expect(await send(said("m3", yes, { taskId }))).toEqual(failed);
  expect(await send(message)).toEqual(together[0]);
});

it("of a failed task that was tried again with success, the message gets the failure, without what came later", async () => {
  let isBroken = true;
  const flaky = defineAgent({
    name: "Flaky",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [{ name: "order", required: true }],
        run: async ({ job }) => {
          const one = await job.openCase({ id: `${job.id}-one`, name: "One" });
          await one.close({ one: 1 });
          const two = await job.openCase({ id: `${job.id}-two`, name: "Two" });
          if (isBroken) throw new Error("broken");
          await two.close({ two: 2 });
          return "done";
        },
      },
    },
  });
  await using server = await testServer({ agents: [flaky], plugins: [a2a()] });
  const send = () => call(server, "JSONRPC", "SendMessage", said("m1", [{ text: "go" }]), { agent: "flaky" });
  const failed = await send();
  const { id } = failed.result.task;
  isBroken = false;
  expect((await server.request(`/jobs/${id}/retry`, { json: {} })).status).toBe(202);
  await server.service.get(RUNNER).ended(id, 60_000);

  expect(await send()).toEqual(failed);
  expect(stateOf(failed)).toBe("TASK_STATE_FAILED");
  const now = await call(server, "JSONRPC", "GetTask", { id }, { agent: "flaky" });
  expect(now.result).toMatchObject({ status: { state: "TASK_STATE_COMPLETED" } });
});

it("what is kept of a first response is small, and goes with its job", async () => {
  await using server = await testServer(options);
  const { result } = await call(
    server,
    "JSONRPC",
    "SendMessage",
    said("m1", [{ text: "7".repeat(20_000) }]),
    {
      agent,
    },
  );
  const rows = async () => (await server.service.get(STORE).table("KeyedRequest").list({ limit: 10 })).items;

  const [row, ...more] = await rows();
  expect(more).toEqual([]);
  expect(JSON.stringify(row).length).toBeLessThan(500);
  await server.request(`/admin/api/jobs/${result.task.id}?permanent=true`, { method: "DELETE" });
  await server.request(`/admin/api/jobs/${result.task.id}?permanent=true`, { method: "DELETE" });
  expect(await rows()).toEqual([]);
});
