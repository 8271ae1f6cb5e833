// @area core
import { events } from "agent-control-service";
import {
  DeliveryError,
  type DeliveryTarget,
  EVENTS,
  type NewEvent,
  type Plugin,
} from "agent-control-service/plugin";
import { expect, it, onTestFinished } from "vitest";
import { AuditLog } from "../../src/core/audit/audit-log.ts";
import { createLogger } from "../../src/core/base/log.ts";
import { Redactor } from "../../src/core/base/redactor.ts";
import { endCase, updateCase } from "../../src/core/entities/change-case.ts";
import { moveJob } from "../../src/core/entities/change-job.ts";
import { createJob } from "../../src/core/entities/create-job.ts";
import { Hooks } from "../../src/core/entities/hooks.ts";
import { Ledger } from "../../src/core/entities/ledger.ts";
import { openCase } from "../../src/core/entities/open-case.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { RUNNER, STORE } from "../../src/core/service/tokens.ts";
import { failFirstCommits } from "../../src/core/store/contract/fail-first-commits.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { Dispatcher } from "../../src/plugins/events/dispatcher.ts";
import { LaneClaims } from "../../src/plugins/events/lane-claims.ts";
import { MessageIds } from "../../src/plugins/events/message-ids.ts";
import { resolveEventsOptions } from "../../src/plugins/events/options.ts";
import { Outbox } from "../../src/plugins/events/outbox.ts";
import { OUTBOX_LANE_TABLE, OUTBOX_TABLE } from "../../src/plugins/events/outbox-table.ts";
import { jobContext } from "../runs/_jobs.ts";
import { startInstances } from "./_instances.ts";

const IMPATIENT = { backoff: { initial: 0.01, max: 0.02 }, breaker: { initial: 0.02, max: 0.05 } };
const HOUR = 3_600_000;

interface Taken {
  readonly by: string;
  readonly key: string;
  readonly event: NewEvent;
}

/** One receiver, which all instances reach: it can be down. */
class Receiver {
  isDown = false;
  readonly taken: Taken[] = [];

  from(by: string): DeliveryTarget {
    return {
      name: "ledger",
      accepts: () => true,
      send: async ({ body, idempotencyKey: key }) => {
        if (this.isDown) throw new DeliveryError("is down", { status: 503 });
        this.taken.push({ by, key, event: body as NewEvent });
        // Others may send in the meantime.
        await new Promise((resolve) => setImmediate(resolve));
      },
    };
  }

  plugin(by: string): Plugin {
    return {
      name: "mine",
      dependsOn: ["events"],
      setup: ({ get }) => get(EVENTS).addTarget(this.from(by)),
    };
  }

  /** What it was sent about a job, in the order of arrival. */
  about(job: string): (string | number)[] {
    return this.taken
      .filter(({ event }) => event.source.job === job)
      .map(({ event }) => (event.details as { index?: number }).index ?? event.type);
  }
}

const newJob = (id: string) => ({
  id,
  name: id,
  agent_name: "greeter",
  fingerprint: id,
  encrypted_agent_parameters: null,
  job_fields: {},
  job_context: jobContext(id),
});
const ACCOUNT = { workspace_id: "dev", api_key: null, api_url: null };
const ALL = ["agent.job.start.confirmation", "agent.case.start", 1, 2, 3, 4, "agent.job.end"];

it("events of a job are sent in the order of its log and once, whichever instances have stored them", async () => {
  const receiver = new Receiver();
  // Paused: the jobs, which the test moves by hand, are not run.
  const plugins = (by: string) => ({ paused: true, plugins: [events(IMPATIENT), receiver.plugin(by)] });
  const [one, other] = await startInstances([
    { ...plugins("one"), clock: () => new Date(Date.now() + HOUR) },
    plugins("other"),
  ]);
  receiver.isDown = true;
  const ids = ["job-1", "job-2", "job-3"];
  for (const id of ids) {
    const [first, second] = [one, other].map(({ service }) => service.get(LEDGER));
    await first!.write((unit) => createJob(unit, newJob(id)));
    await first!.write((unit) => moveJob(unit, id, "start_work", { run_count: 1 }));
    const item = await first!.write((unit) =>
      openCase(unit, id, { ref: id, name: id, description: "" }, ACCOUNT),
    );
    for (const ledger of [first!, second!, first!]) {
      await ledger.write(async (unit) => {
        await updateCase(unit, item.id, { name: "step", cost: 0 });
        await unit.record(id, { type: "mark", mark: "note", message: "a line, as a run adds one" });
      });
    }
    await second!.write((unit) => endCase(unit, item.id, { to: "completed", delivery: {} }));
    await second!.write((unit) => moveJob(unit, id, "successfully_done", { result: {} }));
  }

  receiver.isDown = false;

  for (const id of ids) await expect.poll(() => receiver.about(id)).toEqual(ALL);
  await expect.poll(() => one.service.get(STORE).table("Outbox").ids()).toEqual([]);
  await expect.poll(() => one.service.get(STORE).table("OutboxLane").ids()).toEqual([]);
  expect(new Set(receiver.taken.map(({ key }) => key)).size).toBe(receiver.taken.length);
});

it("waiting events of a removed job come before those of a later job of its id", async () => {
  const receiver = new Receiver();
  const [one] = await startInstances([
    { paused: true, plugins: [events(IMPATIENT), receiver.plugin("one")] },
  ]);
  receiver.isDown = true;
  const ledger = one.service.get(LEDGER);
  for (const end of ["successfully_done", "error_encountered"] as const) {
    await ledger.write((unit) => createJob(unit, newJob("job-1")));
    await ledger.write((unit) => moveJob(unit, "job-1", "start_work", { run_count: 1 }));
    await ledger.write((unit) => moveJob(unit, "job-1", end, { result: {} }));
    if (end === "successfully_done")
      await one.service.get(RUNNER).remove("job-1", "a test", { permanent: true });
  }

  receiver.isDown = false;

  const [start, done, error] = ["agent.job.start.confirmation", "agent.job.end", "agent.job.error"];
  await expect.poll(() => receiver.about("job-1")).toEqual([start, done, start, error]);
});

/** The part of an instance that sends messages. */
async function startSender(
  by: string,
  store: Store,
  receiver: Receiver,
  target = receiver.from(by),
  write: (line: string) => void = () => {},
) {
  const redactor = new Redactor();
  const clock = () => new Date();
  const log = createLogger({ level: "error", format: "text", redactor, clock, write });
  const ledger = new Ledger(store, new Hooks(() => {}), clock, redactor);
  const audit = new AuditLog({ store, ledger, redactor, log });
  const outbox = new Outbox({ store, clock, redactor, ids: new MessageIds(clock, () => by), audit, log });
  const options = resolveEventsOptions({ ...IMPATIENT, timeout: 0.2 });
  const dispatcher = new Dispatcher({
    ...{ outbox, options, redactor, clock, log, poll: 20 },
    claims: new LaneClaims(store, options.timeout),
    random: Math.random,
    headersFor: async () => ({}),
  });
  dispatcher.add(target);
  onTestFinished(() => dispatcher.close(100));
  const ids = new MessageIds(clock, () => by);
  const put = async (n: number) => {
    const body = { source: { job: "job-1" }, type: "agent.case.update", details: { index: n } };
    const message = { eventId: ids.next(), target: "ledger", stream: "job-1", type: body.type, body };
    return store.transaction(async (tx) => {
      await tx.append("Run", "job-1", { type: "mark", mark: "note", message: String(n), at: "" });
      return outbox.insert(tx, message);
    });
  };
  return { dispatcher, outbox, put };
}

/** A store whose lists arrive some time after they were read, as over a network. */
function withLateLists(store: Store): Store {
  const table: Store["table"] = (name) => {
    const inner = store.table(name);
    const list: typeof inner.list = async (query) => {
      const found = await inner.list(query);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return found;
    };
    return { ...inner, list };
  };
  return { ...store, table };
}

/** A store whose clock a test sets. */
async function sharedStore() {
  const log = { info() {}, warn() {}, error() {} };
  const tables = [...CORE_TABLES, OUTBOX_TABLE, OUTBOX_LANE_TABLE];
  const inner = await createMemoryStore({ tables, dataDir: "", log });
  const time = { ahead: 0 };
  const now = async () => new Date(Date.now() + time.ahead);
  return { time, store: { ...failFirstCommits(inner), now } };
}

it("a message that was removed while the next ones were read is not sent again", async () => {
  const { store } = await sharedStore();
  const receiver = new Receiver();
  const one = await startSender("one", withLateLists(store), receiver);
  for (const n of [1, 2, 3]) one.dispatcher.wake(await one.put(n));

  await expect.poll(() => receiver.about("job-1").at(-1)).toBe(3);
  await expect.poll(() => store.table("OutboxLane").ids()).toEqual([]);

  expect(receiver.about("job-1")).toEqual([1, 2, 3]);
});

it("messages that an instance was sending when it died are sent by another, with their ids", async () => {
  const { store, time } = await sharedStore();
  const receiver = new Receiver();
  const stuck: DeliveryTarget = {
    name: "ledger",
    send: ({ body, idempotencyKey: key }) => {
      receiver.taken.push({ by: "one", key, event: body as NewEvent });
      return new Promise(() => {});
    },
  };
  const one = await startSender("one", store, receiver, stuck);
  for (const n of [1, 2, 3]) one.dispatcher.wake(await one.put(n));
  await expect.poll(() => receiver.about("job-1")).toEqual([1]);
  await startSender("other", store, receiver);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(receiver.about("job-1")).toEqual([1]);

  time.ahead += 60_000;

  await expect.poll(() => receiver.about("job-1")).toEqual([1, 1, 2, 3]);
  const [first, again] = receiver.taken;
  expect(again).toMatchObject({ by: "other", key: first!.key });
});

it("an instance that was frozen while it sent does not continue with what another has sent", async () => {
  const { store, time } = await sharedStore();
  const receiver = new Receiver();
  let thaw = () => {};
  const frozen: DeliveryTarget = {
    name: "ledger",
    send: async (delivery) => {
      await receiver.from("one").send(delivery);
      await new Promise<void>((resolve) => {
        thaw = resolve;
      });
    },
  };
  const one = await startSender("one", store, receiver, frozen);
  for (const n of [1, 2]) one.dispatcher.wake(await one.put(n));
  await expect.poll(() => receiver.about("job-1")).toEqual([1]);
  time.ahead += 60_000;
  await startSender("other", store, receiver);
  await expect.poll(() => receiver.about("job-1")).toEqual([1, 1, 2]);
  const elapsed = performance.now.bind(performance);
  performance.now = () => elapsed() + 60_000;
  onTestFinished(() => {
    performance.now = elapsed;
  });

  thaw();

  await expect.poll(() => store.table("Outbox").ids()).toEqual([]);
  expect(receiver.about("job-1")).toEqual([1, 1, 2]);
});

it("an instance that closes leaves its lanes to the others immediately", async () => {
  const { store } = await sharedStore();
  const receiver = new Receiver();
  const one = await startSender("one", store, receiver);
  receiver.isDown = true;
  one.dispatcher.wake(await one.put(1));
  await expect.poll(async () => (await store.table("OutboxLane").ids()).length).toBe(1);
  await startSender("other", store, receiver);

  await one.dispatcher.close(1000);
  receiver.isDown = false;

  await expect.poll(() => receiver.about("job-1")).toEqual([1]);
  expect(receiver.taken[0]!.by).toBe("other");
});

/** A store in which the lanes with messages are read once the test says so, or fail. */
function withGate(store: Store) {
  let open = () => {};
  let fail = (_: Error) => {};
  const gate = new Promise<void>((resolve, reject) => {
    [open, fail] = [resolve, reject];
  });
  const table: Store["table"] = (name) => {
    const inner = store.table(name);
    if (name !== "Outbox") return inner;
    const countBy: typeof inner.countBy = async (...asked) => {
      await gate;
      return inner.countBy(...asked);
    };
    return { ...inner, countBy };
  };
  return { store: { ...store, table } as Store, open: () => open(), fail: (error: Error) => fail(error) };
}

const someTurns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
};

it("an instance that closes waits for what it reads, so that its store is not closed meanwhile", async () => {
  const { store, open } = withGate((await sharedStore()).store);
  const lines: string[] = [];
  const receiver = new Receiver();
  const one = await startSender("one", store, receiver, undefined, (line) => lines.push(line));
  const order: string[] = [];

  const closing = one.dispatcher.close(60_000).then(() => order.push("closed"));
  await someTurns();
  order.push("read");
  open();
  await closing;

  expect(order).toEqual(["read", "closed"]);
  expect(lines).toEqual([]);
});

it("a read that outlasts the end of an instance is no error", async () => {
  const { store, fail } = withGate((await sharedStore()).store);
  const lines: string[] = [];
  const receiver = new Receiver();
  const one = await startSender("one", store, receiver, undefined, (line) => lines.push(line));

  await one.dispatcher.close(0);
  fail(new Error("the store is closed"));
  await someTurns();

  expect(lines).toEqual([]);
});
