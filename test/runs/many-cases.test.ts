import { RUNNER } from "agent-control-service/plugin";
import type { Store, StoreFactory } from "agent-control-service/store";
import { createMemoryStore, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

const CASES = 2000;
const FIELDS = [{ name: "yes", field_type: "BooleanField" as const }];

/** A store in memory that tells the length of everything written in its transactions. */
function counting(): { readonly open: StoreFactory; readonly written: () => number } {
  let written = 0;
  const count = <T>(value: T): T => {
    written += JSON.stringify(value).length;
    return value;
  };
  const open: StoreFactory = async (context) => {
    const store = await createMemoryStore(context);
    const transaction: Store["transaction"] = (work) =>
      store.transaction((tx) =>
        work(
          withOwn(tx, {
            insert: (table, entity) => tx.insert(table, count(entity)),
            change: async (table, id, fn) => count(await tx.change(table, id, fn)),
            append: (log, key, entry) => tx.append(log, key, count(entry)),
          }),
        ),
      );
    return withOwn(store, { transaction });
  };
  return { open, written: () => written };
}

/** An object with some methods of its own in place of those that it has. */
function withOwn<T extends object>(object: T, own: Partial<T>): T {
  return new Proxy(object, {
    get: (target, name) => {
      const value = Reflect.get(name in own ? own : target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

test("the cost to open a case, ask in it and close it does not grow with the number of cases", async () => {
  const marks: number[] = [];
  const store = counting();
  const agent = agentOf(async ({ job }) => {
    const cases = [];
    for (let n = 0; n < CASES; n++) {
      if (n % (CASES / 2) === 0) marks.push(store.written());
      cases.push(await job.openCase({ id: `case-${n}`, name: "Case" }));
    }
    marks.push(store.written());
    const last = cases.slice(-20);
    const answers = last.map((item) => item.ask({ question: "Yes?", fields: FIELDS }));
    await Promise.all(answers);
    marks.push(store.written());
    for (const item of last) await item.close();
    marks.push(store.written());
  });
  await using server = await testServer({ agents: [agent], store: store.open });
  const { service } = server;

  const { id } = await startJob(service);
  await until(service, id, ["awaiting"]);
  for (let n = CASES - 20; n < CASES; n++) {
    await expect
      .poll(async () => (await server.request(`/jobs/${id}/cases?skip=${n}&limit=1`)).status)
      .toBe(200);
    await service.get(RUNNER).answer(id, `case-${n}`, { answer: { yes: true }, message: null });
  }
  await until(service, id);

  const [begun, half, opened, answered, closed] = marks as [number, number, number, number, number];
  expect(opened - half).toBeLessThan((half - begun) * 1.05);
  expect((answered - opened) / 20).toBeLessThan(20_000);
  expect((closed - answered) / 20).toBeLessThan(5000);
});
