import { expect, test } from "vitest";
import { startTimer } from "../../src/core/base/timer.ts";
import type { QueuedJob } from "../../src/core/runs/queue/queued-job.ts";
import { Scheduler } from "../../src/core/runs/queue/scheduler.ts";
import type { Slot } from "../../src/core/runs/queue/slot.ts";
import { type Waiting, WaitingLine } from "../../src/core/runs/queue/waiting-line.ts";
import { SimRandom } from "../store/sim-random.ts";

/** A waiting job of the model, and what it may have. */
interface Modeled extends QueuedJob {
  readonly order: number;
  state: "waiting" | "running" | "resting" | "returning";
  since: number;
}

/** The rules of the scheduler, each time from the beginning. */
class Model {
  readonly jobs: Modeled[] = [];
  readonly served = new Map<string, number>();
  readonly limits: { places: number; agents: Record<string, number>; key: number; isKept: boolean };
  #clock = 0;

  constructor(limits: Model["limits"]) {
    this.limits = limits;
  }

  next(): number {
    return ++this.#clock;
  }

  of(state: Modeled["state"]): Modeled[] {
    return this.jobs.filter((one) => one.state === state);
  }

  holdsKey(one: Modeled): boolean {
    return one.state === "running" || (this.limits.isKept && one.state !== "waiting");
  }

  fits(one: Modeled): boolean {
    const running = this.of("running");
    if (running.length >= this.limits.places) return false;
    if (running.filter(({ agent }) => agent === one.agent).length >= this.limits.agents[one.agent]!)
      return false;
    if (one.key == null || this.holdsKey(one)) return true;
    const holders = this.jobs.filter(
      (other) => other.agent === one.agent && other.key === one.key && this.holdsKey(other),
    );
    return holders.length < this.limits.key;
  }

  run(one: Modeled): void {
    one.state = "running";
    this.served.set(one.workspace, this.next());
  }

  /** Gives slots to those that come first, until nobody fits; who runs then. */
  serve(): string[] {
    for (;;) {
      const runningOf = (workspace: string) =>
        this.of("running").filter((one) => one.workspace === workspace).length;
      for (const workspace of this.served.keys())
        if (runningOf(workspace) === 0 && !this.of("waiting").some((one) => one.workspace === workspace))
          this.served.delete(workspace);
      const returning = this.of("returning")
        .filter((one) => this.fits(one))
        .sort((a, b) => a.since - b.since);
      const waiting = this.of("waiting")
        .filter((one) => this.fits(one))
        .sort(
          (a, b) =>
            runningOf(a.workspace) - runningOf(b.workspace) ||
            (this.served.get(a.workspace) ?? 0) - (this.served.get(b.workspace) ?? 0) ||
            a.order - b.order,
        );
      const next = returning[0] ?? waiting[0];
      if (!next) return this.of("running").map(({ jobId }) => jobId);
      this.run(next);
    }
  }
}

const PROGRAMS = Number(process.env.SVC_PROGRAMS ?? 300);

test(`${PROGRAMS} random programs give slots as the rules say, with and without keys that jobs keep`, async () => {
  for (let seed = 1; seed <= PROGRAMS; seed++) {
    const sim = new SimRandom(seed);
    const random = () => sim.next();
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
    const limits = {
      places: 1 + Math.floor(random() * 6),
      agents: { a: 1 + Math.floor(random() * 4), b: 1 + Math.floor(random() * 4) } as Record<string, number>,
      key: 1 + Math.floor(random() * 2),
      isKept: random() < 0.5,
    };
    const model = new Model(limits);
    const scheduler = new Scheduler({
      startTimer,
      slots: limits.places,
      agents: new Map(
        Object.entries(limits.agents).map(([agent, slots]) => [
          agent,
          { slots, key: { limit: limits.key, isKept: limits.isKept } },
        ]),
      ),
    });
    const places = new Map<string, Slot>();
    const running = new Set<string>();
    const settle = () => new Promise((resolve) => setImmediate(resolve));

    for (let n = 0; n < 60; n++) {
      const action = pick(["start", "start", "rest", "return", "end", "end", "cancel"] as const);
      if (action === "start") {
        const job: Modeled = {
          jobId: `${n}`,
          agent: pick(["a", "b"]),
          workspace: pick(["u", "v", "w"]),
          key: pick([null, "k", "l", "m"]),
          order: model.next(),
          state: "waiting",
          since: 0,
        };
        model.jobs.push(job);
        void scheduler.take(job).then((place) => {
          if (!place) return;
          places.set(job.jobId, place);
          running.add(job.jobId);
        });
      } else {
        const from = {
          rest: "running",
          return: "resting",
          end: pick(["running", "resting"]),
          cancel: "waiting",
        } as const;
        const job = pick(model.of(from[action] as Modeled["state"]));
        if (!job) continue;
        if (action === "rest") {
          job.state = "resting";
          running.delete(job.jobId);
          places.get(job.jobId)!.release();
        } else if (action === "return") {
          job.state = "returning";
          job.since = model.next();
          void places
            .get(job.jobId)!
            .retake()
            .then(() => running.add(job.jobId));
        } else {
          if (action === "cancel") scheduler.remove(job.jobId);
          else {
            scheduler.ended(job);
            places.get(job.jobId)!.leave();
          }
          model.jobs.splice(model.jobs.indexOf(job), 1);
          running.delete(job.jobId);
        }
      }
      const expected = model.serve().sort();
      await settle();
      expect([...running].sort(), `seed ${seed}, after ${n}: ${action}`).toEqual(expected);
      expect(scheduler.queued, `seed ${seed}`).toBe(model.of("waiting").length);
      expect(scheduler.running).toBe(expected.length);
      for (const { jobId } of model.of("waiting"))
        expect(scheduler.position(jobId)!.position).toBeGreaterThan(0);
    }
  }
});

test("the next of many is found with few comparisons, however many wait for a key that is taken", () => {
  const MANY = 100_000;
  let looked = 0;
  const line = new WaitingLine<Waiting>(() => ({ running: 0, served: 0 }));
  const taken = { isOpen: true };
  const entry = (n: number, workspace: string, gate?: Waiting["gate"]): Waiting => ({
    ...{ jobId: `${n}`, agent: "a", workspace, gate },
    get order() {
      looked++;
      return n;
    },
  });
  for (let n = 0; n < MANY; n++) line.add(entry(n, "w", taken));
  taken.isOpen = false;
  line.gateChanged(taken);
  for (let n = 0; n < 200; n++) line.add(entry(MANY + n, `w${n % 20}`, { isOpen: true }));

  looked = 0;
  const served = Array.from({ length: 200 }, () => line.next(() => true)!.jobId);
  const perGrant = looked / 200;
  looked = 0;
  line.remove("50000");
  const forRemoval = looked;
  looked = 0;
  const behind = line.aheadAtGate("60000");
  const forPosition = looked;

  expect(served).toEqual(Array.from({ length: 200 }, (_, n) => `${MANY + n}`));
  expect(line.next(() => true)).toBeUndefined();
  expect(behind).toBe(59_999);
  expect(perGrant).toBeLessThan(60);
  expect(forRemoval).toBeLessThan(60);
  expect(forPosition).toBeLessThan(60);
  expect(line.size).toBe(MANY - 1);
  taken.isOpen = true;
  line.gateChanged(taken);
  looked = 0;
  for (let n = 0; n < 1000; n++) line.next(() => true);
  expect(looked / 1000).toBeLessThan(60);
});

test("many keys, workspaces and agents cost the logarithm of their number", () => {
  const MANY = 50_000;
  let looked = 0;
  const line = new WaitingLine<Waiting>(() => ({
    get running() {
      looked++;
      return 0;
    },
    served: 0,
  }));
  for (let n = 0; n < MANY; n++) {
    line.add({
      jobId: `${n}`,
      agent: `a${n % 4}`,
      workspace: `w${n % 5000}`,
      order: n,
      gate: { isOpen: n % 2 === 0 },
    });
  }

  looked = 0;
  for (let n = 0; n < 1000; n++) line.next((agent) => agent !== "a0");

  expect(looked / 1000).toBeLessThan(250);
});

test("what waits for a key is counted by the key, and what cannot run yet is not counted for others", async () => {
  const scheduler = new Scheduler({
    startTimer,
    slots: 1,
    agents: new Map([["a", { slots: 9, key: { limit: 1, isKept: true } }]]),
  });
  const job = (jobId: string, key: string | null, workspace = "w"): QueuedJob => ({
    jobId,
    agent: "a",
    workspace,
    key,
  });
  const first = scheduler.tryTake(job("first", "k"))!;
  for (const id of ["k1", "k2"]) void scheduler.take(job(id, "k"));
  void scheduler.take(job("free", "l"));
  first.release();
  await new Promise((resolve) => setImmediate(resolve));

  expect(scheduler.running).toBe(1);
  expect(scheduler.position("free")).toBeUndefined();
  expect(["k1", "k2"].map((id) => scheduler.aheadAtKey(id))).toEqual([0, 1]);
  void scheduler.take(job("later", "m"));
  expect(scheduler.position("later")).toEqual({ position: 1, queued: 3 });
  expect(scheduler.position("k2")).toEqual({ position: 2, queued: 3 });
  expect(scheduler.tryTake(job("other", "k"))).toBeUndefined();
});
