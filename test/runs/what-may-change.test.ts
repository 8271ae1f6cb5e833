import { setTimeout as delay } from "node:timers/promises";
import { type AgentDefinition, type CaseHandle, defineAgent, type JobHandle } from "agent-control-service";
import * as v from "valibot";
import { describe, expect, onTestFinished, test } from "vitest";
import { checkJob } from "../../src/core/runs/check/check-job.ts";
import { readRecord } from "../../src/core/runs/check/open-jobs.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf } from "./_agent.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

const FORM = v.object({ approved: v.boolean() });

interface Flow {
  readonly job: JobHandle;
  readonly item: CaseHandle;
  /** Makes steps of the case, one after the other. */
  readonly steps: (...names: string[]) => Promise<void>;
  /** Asks for the approval that each job waits for. */
  readonly ask: (name?: string, question?: string) => Promise<boolean>;
}
type Code = (flow: Flow) => Promise<unknown>;

const done: string[] = [];
/** Questions that the handler has come to. */
let reached = 0;

const child = defineAgent({ name: "Child", version: "1.0.0", methods: { job_start: { run: () => 1 } } });

function agent(code: Code, version: string): AgentDefinition {
  const run = async ({ job }: { job: JobHandle }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const steps = async (...names: string[]) => {
      for (const name of names) await item.step(name, () => void done.push(name));
    };
    const ask = async (name = "approve", question = "Pay it?") => {
      reached++;
      return (await item.ask(name, { question, fields: FORM })).approved;
    };
    await code({ job, item, steps, ask });
    return "done";
  };
  return agentOf(run, { version });
}

/** The code that a job starts with: at its question it has made "read" and "check". */
const BEFORE: Code = async ({ steps, ask }) => {
  await steps("read", "check");
  await ask();
  await steps("book");
};

interface Row {
  /** The code that the job starts with. @default BEFORE */
  readonly before?: Code;
  readonly after: Code;
  /** The calls that are skipped; or the recorded call that does not fit. */
  readonly skipped?: readonly string[];
  readonly held?: string;
  /** The recorded call that does not fit where it has ended by then. */
  readonly heldOnceAnswered?: string;
  /** Steps that the new code runs, where it fits. @default book */
  readonly ran?: readonly string[];
}

/** The table "New code" of docs/durability.md, by its rows. */
const ROWS: Record<string, Record<string, Row>> = {
  "text, form, deadline or default of a question": {
    "another text": {
      after: async ({ steps, ask }) => {
        await steps("read", "check");
        await ask("approve", "Really?");
        await steps("book");
      },
    },
    "another form": {
      after: async ({ steps, item }) => {
        await steps("read", "check");
        reached++;
        const fields = v.object({ approved: v.boolean(), reason: v.optional(v.string(), "none") });
        await item.ask("approve", { question: "Pay it?", fields });
        await steps("book");
      },
    },
    "a deadline and a default": {
      after: async ({ steps, item }) => {
        await steps("read", "check");
        reached++;
        await item.ask("approve", {
          ...{ question: "Pay it?", fields: FORM, timeout: "1h", onTimeout: "default" },
          default: { approved: false },
        });
        await steps("book");
      },
    },
  },
  "a call added": {
    "after the question": {
      after: async ({ steps, ask }) => {
        await steps("read", "check");
        await ask();
        await steps("audit", "book");
      },
      ran: ["audit", "book"],
    },
    "before the question": {
      after: async ({ steps, ask }) => {
        await steps("read", "check", "audit");
        await ask();
        await steps("book");
      },
      ran: ["audit", "book"],
    },
    "before a question that has a sleep as its time limit": {
      before: async ({ job, steps, ask }) => {
        await steps("read", "check");
        await Promise.race([ask(), job.sleep("1h")]);
        await steps("book");
      },
      after: async ({ job, steps, ask }) => {
        await steps("read", "check", "audit");
        await Promise.race([ask(), job.sleep("1h")]);
        await steps("book");
      },
      ran: ["audit", "book"],
    },
    "before one that was made": {
      after: async ({ steps, ask }) => {
        await steps("read", "audit", "check");
        await ask();
        await steps("book");
      },
      held: 'step "check" of case "a"',
    },
  },
  "a call removed": {
    "the first": {
      after: async ({ steps, ask }) => {
        await steps("check");
        await ask();
        await steps("book");
      },
      skipped: ['step "read" of case "a"'],
    },
    "the last before the question, with others behind it": {
      after: async ({ steps, ask }) => {
        await steps("read");
        await ask();
        await steps("book", "send");
      },
      skipped: ['step "check" of case "a"'],
      ran: ["book", "send"],
    },
    "all before the question": {
      after: async ({ ask, steps }) => {
        await ask();
        await steps("book");
      },
      skipped: ['step "read" of case "a"', 'step "check" of case "a"'],
    },
    "the last before the question, beside a step that stays": {
      before: async ({ job, steps, ask }) => {
        await steps("read", "check");
        await Promise.all([ask(), job.step("beside", () => void done.push("beside"))]);
        await steps("book");
      },
      after: async ({ job, steps, ask }) => {
        await steps("read");
        await Promise.all([ask(), job.step("beside", () => void done.push("beside"))]);
        await steps("book");
      },
      skipped: ['step "check" of case "a"'],
    },
    "a child": {
      before: async ({ job, steps, ask }) => {
        await steps("read");
        await (await job.start(child, {})).result();
        await ask();
        await steps("book");
      },
      after: async ({ steps, ask }) => {
        await steps("read");
        await ask();
        await steps("book");
      },
      skipped: ['start "child"', expect.stringMatching(/^child "/) as string],
    },
  },
  "a call moved": {
    "among those that were made": {
      after: async ({ steps, ask }) => {
        await steps("check", "read");
        await ask();
        await steps("book");
      },
    },
    "behind the question": {
      after: async ({ steps, ask }) => {
        await steps("read");
        await ask();
        await steps("check", "book");
      },
      skipped: ['step "check" of case "a"'],
    },
  },
  "a call renamed": {
    "the last before the question": {
      after: async ({ steps, ask }) => {
        await steps("read", "verify");
        await ask();
        await steps("book");
      },
      held: 'step "check" of case "a"',
    },
    "and moved": {
      after: async ({ steps, ask }) => {
        await steps("check", "load");
        await ask();
        await steps("book");
      },
      held: 'step "read" of case "a"',
    },
    "the question, whose text is the same": {
      after: async ({ steps, ask }) => {
        await steps("read", "check");
        await ask("permit");
        await steps("book");
      },
      // Until then it is another question, which is asked in its place.
      heldOnceAnswered: 'ask "approve" of case "a"',
    },
  },
  "fewer calls": {
    "none of the last two": {
      after: async ({ steps }) => steps("read"),
      held: 'step "check" of case "a"',
    },
  },
};

async function until(life: Life, isSo: (life: Life) => Promise<boolean>): Promise<void> {
  for (let left = 4000; left > 0; left--) {
    if (await isSo(life)) return;
    await delay(2);
  }
  throw new Error(`The job stays ${JSON.stringify(await life.jobs.get(JOB))}`);
}

const asks = async (life: Life) => Boolean((await life.cases.find("a"))?.question);
const answer = (life: Life) => life.runner.answer(JOB, "a", { answer: { approved: true }, message: null });

const ANSWERED = {
  waiting: "answered while the new code waits for it",
  starting: "answered as the new code starts",
  before: "answered before the new code starts",
} as const;

/** A process with this code, which ends with the test. */
function live(store: Store, code: Code, version: string): Life {
  reached = 0;
  const life = new Life(store, [agent(code, version), child]);
  onTestFinished(() => life.die());
  return life;
}

/** The job at its question under the first code; the process has ended. */
async function asked(store: Store, { before = BEFORE }: Row): Promise<void> {
  const life = live(store, before, "1.0.0");
  await life.start();
  await until(life, asks);
  life.die();
  await delay(0);
}

async function check(life: Life) {
  const open = await readRecord(
    { jobs: life.jobs, cases: life.cases, readResult: () => Promise.reject(new Error("none is large")) },
    await life.jobs.get(JOB),
  );
  return checkJob(life.parts.agents, open, { env: {} });
}

for (const [change, rows] of Object.entries(ROWS))
  describe(`of new code, ${change}:`, () => {
    for (const [which, row] of Object.entries(rows))
      for (const [when, how] of Object.entries(ANSWERED))
        test(`${which}; a check, the start and what follows agree on a question that is ${how}`, async () => {
          done.length = 0;
          const store = await emptyStore();
          await asked(store, row);
          // No handler has taken the answer.
          if (when === "before") await answer(live(store, row.after, "1.0.0"));
          const made = done.splice(0);
          const life = live(store, row.after, "2.0.0");
          const held = row.held ?? (when === "before" ? row.heldOnceAnswered : undefined);

          const checked = await check(life);
          reached = 0;
          await life.resume();

          if (held !== undefined) {
            await until(life, async ({ jobs }) => (await jobs.get(JOB)).held !== null);
            expect(checked).toMatchObject({ verdict: "held", expected: held });
            expect((await life.jobs.get(JOB)).held).toMatchObject({ expected: held });
            expect(done).toEqual([]);
            return;
          }
          expect(checked).toMatchObject({ verdict: "fits" });
          if (when === "waiting") {
            expect(checked.skipped).toEqual(row.skipped ?? []);
            await until(life, async () => reached > 0);
            await delay(10);
          }
          if (when !== "before") await answer(life);
          const isLate = when === "starting" && row.heldOnceAnswered !== undefined;
          await until(life, async ({ jobs }) => {
            const { finished_at, held: is } = await jobs.get(JOB);
            return finished_at !== null || is !== null;
          });
          // The answer was for the question that the new code has not.
          if (isLate && (await life.jobs.get(JOB)).held) return;
          expect(await life.jobs.get(JOB)).toMatchObject({ status: "completed", result: "done", held: null });
          expect(done).toEqual(row.ran ?? ["book"]);
          expect(done.filter((name) => made.includes(name))).toEqual([]);
          if (change === "a call removed")
            expect(life.logs.join("")).toContain("no longer makes calls that are recorded");
        });
  });
