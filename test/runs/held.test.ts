import type { AgentDefinition, JobHandle, JobStartContext } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import { shareOf } from "../_share.ts";
import { agentOf } from "./_agent.ts";
import { Deploys } from "./_deploys.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

const FORM = v.object({ approved: v.boolean() });
const done: string[] = [];

/** An agent that makes these steps, asks, and gives the answer. */
function worker(steps: readonly string[], more: { version?: string; ask?: boolean } = {}): AgentDefinition {
  const { version = "1.0.0", ask = true } = more;
  const run = async ({ job }: { job: JobHandle }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    for (const name of steps) await item.step(name, () => void done.push(name));
    const answer = ask ? await item.ask("approve", { question: "Pay it?", fields: FORM }) : undefined;
    await item.close();
    return { answer, version };
  };
  return agentOf(run, { version });
}

const isHeld = ({ held }: { held: unknown }) => held !== null;

test("a job whose record does not fit new code is held: its question stays open and can be answered", async () => {
  done.length = 0;
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  const asked = await deploys.question("a");

  await deploys.deploy(worker(["fetch", "audit"], { version: "1.1.0" }));
  const held = await deploys.until(isHeld);
  const item = await deploys.answer("a", { approved: true });
  const answered = await deploys.job();

  expect(held).toMatchObject({
    ...{ status: "awaiting", stop_reason: "code_changed", open_questions: 1, agent_version: "1.0.0" },
    held: {
      expected: 'step "check" of case "a"',
      found: 'step "audit" of case "a"',
      recorded: { version: "1.0.0", fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/) },
      present: { version: "1.1.0", fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/) },
    },
  });
  for (const part of ['step "check"', 'step "audit"', "version 1.0.0", "version 1.1.0"])
    expect(held.error).toContain(part);
  expect(held.held?.message).toMatch(/^The record continues with .*\. The call was .*\. .*, or stop it\.$/);
  expect(deploys.life.runner.describe(held).message).toBe(
    "The job is held because its record does not fit the code",
  );
  expect(asked.name).toBe("approve");
  expect(item).toMatchObject({ status: "in_progress", question: null });
  expect(answered).toMatchObject({ status: "awaiting", stop_reason: "code_changed", open_questions: 0 });
  expect(held.code_fingerprint).toBe(held.held?.recorded.fingerprint);
  expect(done).toEqual(["fetch", "check"]);
});

test("it resumes by itself once fitting code is back, with the answer that was given in the meantime", async () => {
  done.length = 0;
  const first = worker(["fetch", "check"]);
  const deploys = await Deploys.start(first);
  await deploys.question("a");
  const other = worker(["fetch", "audit"], { version: "1.1.0" });
  await deploys.deploy(other);
  await deploys.until(isHeld);
  await deploys.answer("a", { approved: true });
  const before = await deploys.life.entries();
  // Tried again at each start, without a trace.
  await deploys.deploy(other);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const after = await deploys.life.entries();

  await deploys.deploy(first);
  const job = await deploys.until(({ status }) => status === "completed");

  expect(after).toEqual(before);
  expect(job).toMatchObject({ error: null, stop_reason: null, held: null });
  expect(job.result).toEqual({ answer: { approved: true }, version: "1.0.0" });
  expect(done).toEqual(["fetch", "check"]);
});

for (const dies of [false, true])
  test(`an answer that comes before the handler has repeated its question does not get in the way of new steps${dies ? ", also after a crash" : ""}`, async () => {
    let go = () => {};
    const isSlow = new Promise<void>((resolve) => {
      go = resolve;
    });
    const code = (added: readonly string[], version: string) =>
      agentOf(
        async ({ job }) => {
          const item = await job.openCase({ id: "a", name: "a" });
          for (const name of ["fetch", ...added])
            await item.step(name, () => (name === "slow" ? isSlow : undefined));
          return (await item.ask("approve", { question: "Pay it?", fields: FORM })).approved;
        },
        { version },
      );
    const deploys = await Deploys.start(code([], "1.0.0"));
    await deploys.question("a");
    const next = code(["slow", "next"], "1.1.0");
    await deploys.deploy(next);
    await deploys.until(({ run_count }) => run_count >= 2);

    await deploys.answer("a", { approved: true });
    if (dies) await deploys.deploy(next);
    go();
    const job = await deploys.until(({ status, held }) => status !== "in_progress" || held !== null);

    expect(job).toMatchObject({ status: "completed", result: true, held: null });
  });

test("a question that was answered under other code, and has another name now, holds the job", async () => {
  const code = (name: string, version: string) =>
    agentOf(
      async ({ job }) => {
        const item = await job.openCase({ id: "a", name: "a" });
        const { approved } = await item.ask(name, { question: "Pay it?", fields: FORM });
        return item.step("pay", () => new Promise(() => approved));
      },
      { version },
    );
  const deploys = await Deploys.start(code("approve", "1.0.0"));
  await deploys.question("a");
  await deploys.answer("a", { approved: true });

  await deploys.deploy(code("permit", "1.1.0"));
  const job = await deploys.until(isHeld);

  expect(job.held).toMatchObject({
    ...{ expected: 'ask "approve" of case "a"', found: 'ask "permit" of case "a"' },
    recorded: { version: "1.0.0" },
  });
});

test("a job whose handler fails on an old record is held, too, and not failed", async () => {
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  await deploys.question("a");

  await deploys.deploy(
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const fetched = await item.step("fetch", () => ({ lines: [1] }));
      return fetched.lines.length;
    }),
  );
  const job = await deploys.until(isHeld);

  expect(job.error).toMatch(/The handler failed \(.*lines.*\), but the record continues with step "check"/);
  expect(job.held).toMatchObject({ found: null });
});

test("a job fails if the same code makes other calls each time", async () => {
  let life = 0;
  const agent = agentOf(async ({ job }) => {
    const name = `life ${++life}`;
    await job.step(name, () => name);
    await job.step("then", () => new Promise(() => {}));
  });
  const deploys = await Deploys.start(agent);
  while (!(await deploys.life.entries()).some(({ type }) => type === "call")) await new Promise(setImmediate);

  await deploys.deploy(agent);
  const job = await deploys.ended();

  expect(job).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
});

test("a held job can be stopped", async () => {
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  await deploys.question("a");
  await deploys.deploy(worker(["fetch", "audit"]));
  await deploys.until(isHeld);

  await deploys.life.runner.stop(JOB);

  expect(await deploys.job()).toMatchObject({ status: "cancelled", stop_reason: "stopped", held: null });
  expect(await deploys.life.cases.get("a")).toMatchObject({ status: "cancelled", question: null });
});

test("a person can continue a held job: calls that the code does not make are skipped, answers and cases stay", async () => {
  done.length = 0;
  const deploys = await Deploys.start(worker(["fetch", "check", "file"]));
  const asked = await deploys.question("a");
  await deploys.deploy(worker(["fetch", "audit", "file"], { version: "1.1.0" }));
  await deploys.until(isHeld);
  await deploys.answer("a", { approved: true });
  const before = (await deploys.life.entries()).length;

  await deploys.life.runner.continue(JOB);
  const job = await deploys.ended();
  // Replayed once more, with the record as it is now.
  await deploys.life.runner.override(JOB, "in_progress", "someone");
  const again = await deploys.ended();
  const entries = await deploys.life.entries();

  expect(asked.name).toBe("approve");
  expect(job).toMatchObject({ status: "completed", held: null, error: null });
  expect(job.result).toEqual({ answer: { approved: true }, version: "1.1.0" });
  expect(again.result).toEqual(job.result);
  expect(done).toEqual(["fetch", "check", "file", "audit", "file"]);
  // Kept as a record of what was done.
  expect(entries.slice(0, before)).toContainEqual(expect.objectContaining({ type: "call", name: "check" }));
  expect(entries).toContainEqual(
    expect.objectContaining({
      mark: "continued",
      cut: [
        [5, 6],
        [12, 12],
      ],
    }),
  );
});

const FAILS = () => Promise.reject(new Error("its settings are missing"));
const LATE = () => new Promise<never>(() => {});

// The last one takes as long as a rehearsal may.
test.each([
  ["fails", "recorded calls: its settings are missing", FAILS] as const,
  ...shareOf([["is late", "did not make its recorded calls in time", LATE] as const], 8),
])(
  "a held job is not continued where its handler %s before it makes its recorded calls: none is forgotten",
  async (_what, problem, before) => {
    done.length = 0;
    const good = worker(["fetch", "check"]);
    const deploys = await Deploys.start(good);
    await deploys.question("a");
    let begin: () => Promise<unknown> = async () => undefined;
    const other = worker(["fetch", "audit"], { version: "1.1.0" });
    const run = async (context: JobStartContext) => {
      await begin();
      return other.methods.job_start.run(context as never);
    };
    await deploys.deploy(agentOf(run, { version: "1.1.0" }));
    await deploys.until(isHeld);
    begin = before;
    const entries = await deploys.life.entries();

    const continued = deploys.life.runner.continue(JOB);

    await expect(continued).rejects.toMatchObject({ type: "invalid_transition" });
    await expect(continued).rejects.toThrow(problem);
    expect(await deploys.job()).toMatchObject({ status: "awaiting", stop_reason: "code_changed" });
    expect(await deploys.life.entries()).toEqual(entries);
    await deploys.deploy(good);
    await deploys.until(({ held }) => held === null);
    await deploys.answer("a", { approved: true });
    expect(await deploys.ended()).toMatchObject({ status: "completed" });
    expect(done).toEqual(["fetch", "check"]);
  },
);

test("a held job can be run from the start, under the newest version", async () => {
  done.length = 0;
  const deploys = await Deploys.start(worker(["fetch", "check"]));
  await deploys.question("a");
  await deploys.deploy(worker(["fetch", "audit"], { version: "2.0.0" }));
  await deploys.until(isHeld);

  await deploys.life.runner.retry(JOB, "start");
  await deploys.question("a");
  await deploys.answer("a", { approved: true });

  expect(await deploys.ended()).toMatchObject({ status: "completed", agent_version: "2.0.0", held: null });
  expect(done).toEqual(["fetch", "check", "fetch", "audit"]);
});

test("two versions run side by side: an open job keeps its own, a new one gets the newest", async () => {
  const old = worker(["fetch", "check"], { version: "1.10.0" });
  const deploys = await Deploys.start(old);
  await deploys.question("a");

  await deploys.deploy(
    old,
    worker(["load"], { version: "1.9.0" }),
    worker(["load", "audit"], { version: "2.0.0" }),
  );
  await deploys.until(({ run_count }) => run_count >= 2);
  await deploys.answer("a", { approved: true });
  const first = await deploys.ended();
  const { job_context } = await deploys.job();
  const other = await deploys.life.runner.start("worker", {
    job_context: { ...job_context, job_id: "job-2" },
    job_fields: {},
  });

  expect(first).toMatchObject({ status: "completed", agent_version: "1.10.0" });
  expect(first.result).toMatchObject({ version: "1.10.0" });
  expect(other.agent_version).toBe("2.0.0");
});

test("an open job is moved to another version if its record fits, and refused if not", async () => {
  const old = worker(["fetch"], { version: "1.0.0" });
  const deploys = await Deploys.start(old);
  await deploys.question("a");
  await deploys.deploy(old, worker(["fetch"], { version: "2.0.0" }), worker(["load"], { version: "3.0.0" }));
  await deploys.until(({ run_count }) => run_count >= 2);
  const { runner } = deploys.life;

  await expect(runner.move(JOB, "4.0.0")).rejects.toMatchObject({ type: "invalid_parameters" });
  await expect(runner.move(JOB, "3.0.0")).rejects.toMatchObject({
    type: "invalid_transition",
    detail: expect.stringContaining('step "load"'),
  });
  await runner.move(JOB, "2.0.0");
  await deploys.until(({ run_count }) => run_count >= 3);
  await deploys.answer("a", { approved: true });

  expect(await deploys.ended()).toMatchObject({ agent_version: "2.0.0", result: { version: "2.0.0" } });
});

test("changed is true for a job that started with it, false for one whose record continues, and keeps its value", async () => {
  const make = (isChanged: boolean) =>
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      await item.step("fetch", () => 1);
      const isNew = isChanged && job.changed("audited");
      if (isNew) await item.step("audit", () => 2);
      await item.step("pay", () => 3);
      await item.ask("approve", { question: "Pay it?", fields: FORM });
      return isNew;
    });
  const results: unknown[] = [];
  for (const first of [make(false), make(true)]) {
    const deploys = await Deploys.start(first);
    await deploys.question("a");
    for (let n = 2; n < 4; n++) {
      await deploys.deploy(make(true));
      await deploys.until(({ run_count, held }) => run_count === n || held !== null);
    }
    await deploys.question("a");
    await deploys.answer("a", { approved: true });
    const { status, result } = await deploys.ended();
    const marks = (await deploys.life.entries()).filter(
      (one) => one.type === "mark" && one.mark === "changed",
    );
    results.push([status, result, marks.length]);
  }

  expect(results).toEqual([
    ["completed", false, 1],
    ["completed", true, 1],
  ]);
});

test("an answer of changed is recorded once, before all steps that are called beside each other after it", async () => {
  const deploys = await Deploys.start(
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const names = ["a", "b", "c"].filter((name) => name !== "b" || job.changed("b"));
      await Promise.all(names.map((name) => item.step(name, () => name)));
      return job.step("last", () => names);
    }),
  );

  expect(await deploys.ended()).toMatchObject({ status: "completed", result: ["a", "b", "c"] });
  const told = (await deploys.life.entries()).flatMap((one) =>
    (one.type === "mark" && one.mark === "changed") || (one.type === "call" && one.call === "step")
      ? [one.type === "mark" ? "changed" : one.name]
      : [],
  );
  expect(told).toEqual(["changed", "a", "b", "c", "last"]);
});

test("a question is asked again if a job is continued and the question asks for something else", async () => {
  const payer = (name: string, total: number) =>
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const sum = await item.step(name, () => total);
      const { approved } = await item.ask("approve", { question: `Pay ${sum}?`, fields: FORM });
      await item.ask("when", { question: "When?", fields: [] });
      return [sum, approved];
    });
  const deploys = await Deploys.start(payer("sum", 100));
  await deploys.question("a");
  await deploys.answer("a", { approved: true });
  await deploys.question("a", (text) => text === "When?");
  const other = payer("total", 900);
  await deploys.deploy(other);
  await deploys.until(isHeld);

  await deploys.life.runner.continue(JOB);
  const question = await deploys.question("a", (text) => text === "Pay 900?");
  await deploys.deploy(other);
  await deploys.until(({ run_count }) => run_count >= 4);
  await deploys.answer("a", { approved: false });
  await deploys.question("a", (text) => text === "When?");
  await deploys.answer("a", {});

  expect(question.note).toBe("What it asks has changed since it was answered");
  expect(await deploys.ended()).toMatchObject({ status: "completed", result: [900, false] });
});

test("a job that is held in a crash loop is no longer held once it is moved to another version", async () => {
  const store = await emptyStore();
  const make = (version: string) => worker(["fetch"], { version, ask: false });
  const life = new Life(store, [make("1.0.0"), make("2.0.0")]);
  const { job_context } = await life.start();
  await life.ended();
  const other = await life.runner.start("worker", {
    job_context: { ...job_context, job_id: "held" },
    job_fields: {},
  });
  await life.runner.ended(other.id, 10_000);
  await store.table("Job").change("held", (job) => ({
    ...job,
    ...{ status: "awaiting", stop_reason: "crash_loop", error: "It ends the process", finished_at: null },
  }));

  await life.runner.move("held", "1.0.0");
  const job = await life.runner.ended("held", 10_000);

  expect(job).toMatchObject({ status: "completed", stop_reason: null, error: null, agent_version: "1.0.0" });
});

test("a start tries held jobs a few at a time, and each of them", async () => {
  const store = await emptyStore();
  const first = new Life(store, worker(["fetch"]), { most: 50 });
  const { job_context } = await first.start();
  const ids = Array.from({ length: 20 }, (_, n) => `held-${n}`);
  for (const id of ids)
    await first.runner.start("worker", { job_context: { ...job_context, job_id: id }, job_fields: {} });
  const until = async (life: Life, isSo: (count: number) => boolean, where: Record<string, string>) => {
    while (!isSo((await life.jobs.list({ where })).total))
      await new Promise((resolve) => setTimeout(resolve, 2));
  };
  await until(first, (count) => count === 21, { status: "awaiting" });
  first.die();
  const second = new Life(store, worker(["load"]), { most: 50 });
  await second.resume();
  await until(second, (count) => count === 21, { stop_reason: "code_changed" });
  second.die();
  let [active, most] = [0, 0];
  const tried = new Set<string>();
  const slow = agentOf(async ({ job }) => {
    tried.add(job.id);
    most = Math.max(most, ++active);
    await new Promise((resolve) => setTimeout(resolve, 5));
    active--;
    await job.step("load", () => 1);
  });

  const third = new Life(store, slow, { most: 50 });
  await third.resume();
  while (tried.size < 21 || active > 0) await new Promise((resolve) => setTimeout(resolve, 2));

  expect(most).toBe(4);
});
