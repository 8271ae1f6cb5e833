import { events } from "agent-control-service";
import { type Delivery, type DeliveryTarget, EVENTS, type NewEvent } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { CONTROL_SYSTEM } from "../../src/core/service/tokens.ts";
import { resolveEventsOptions } from "../../src/plugins/events/options.ts";
import { greeter } from "../_setup.ts";
import { workThrough } from "./_work.ts";

/** A receiver as a third party may write it: a class with state of its own. */
class Ledger implements DeliveryTarget {
  readonly name = "ledger";
  readonly types = ["agent.job.end"];
  readonly taken: unknown[] = [];

  accepts({ type }: NewEvent): boolean {
    return this.types.includes(type);
  }

  async send({ body }: Delivery): Promise<void> {
    this.taken.push((body as NewEvent).type);
  }
}

const plugin = (target: DeliveryTarget) => ({
  name: "mine",
  dependsOn: ["events"],
  setup: ({ get }: { get: (token: typeof EVENTS) => { addTarget(target: DeliveryTarget): void } }) =>
    get(EVENTS).addTarget(target),
});

it("a target may be an instance of a class", async () => {
  const target = new Ledger();
  await using server = await testServer({ agents: [greeter], plugins: [plugin(target)] });

  await workThrough(server.service, "job-1");

  await expect.poll(() => target.taken).toEqual(["agent.job.end"]);
});

it("a target that hangs takes no places of another", async () => {
  const hanging: DeliveryTarget = { name: "hanging", send: () => new Promise(() => {}), accepts: () => true };
  const ledger = new Ledger();
  const options = { timeout: 600, concurrency: 2 };
  await using server = await testServer({
    agents: [greeter],
    plugins: [events(options), plugin(hanging), { ...plugin(ledger), name: "other" }],
  });

  for (let nth = 0; nth < 5; nth++) await workThrough(server.service, `job-${nth}`);

  await expect.poll(() => ledger.taken).toHaveLength(5);
});

it("a target whose filter throws does not fail the agents' work", async () => {
  const broken: DeliveryTarget = {
    name: "broken",
    accepts: () => {
      throw new Error("no idea");
    },
    send: async () => {},
  };
  await using server = await testServer({ agents: [greeter], plugins: [plugin(broken)] });

  await workThrough(server.service, "job-1");

  expect(server.logs.join("")).toContain("no idea");
  expect(await server.service.get(CONTROL_SYSTEM).counts()).toMatchObject({ waiting: 0, dead: 0 });
});

it("a target's name that the outbox cannot store is refused", async () => {
  const target: DeliveryTarget = { name: "a|b", send: async () => {} };

  await expect(testServer({ agents: [greeter], plugins: [plugin(target)] })).rejects.toThrow(
    /"a\|b" cannot name a target/,
  );
});

it.each([
  [{ concurrency: 0 }, /concurrency must be/],
  [{ timeout: -1 }, /timeout must be/],
  [{ maxAge: Number.NaN }, /maxAge must be/],
])("the options %j are refused with their names", async (options, message) => {
  expect(() => resolveEventsOptions(options)).toThrow(message);
  await expect(testServer({ agents: [greeter], plugins: [events(options)] })).rejects.toThrow(message);
});
