import { type Duration, toMilliseconds } from "../core/base/duration.ts";
import type { StoredCase } from "../core/models/case.ts";
import { isTerminal } from "../core/models/entity-status.ts";
import type { StoredJob } from "../core/models/job.ts";
import type { Question } from "../core/models/question.ts";
import type { Runner } from "../core/runs/runner.ts";
import type { Store } from "../core/store/store.ts";
import type { MortalStore } from "./mortal-store.ts";
import type { TestClock } from "./test-clock.ts";

/**
 * Answers to the questions of a job: by the name of the question, its text, or the ref of its case; or a
 * function that returns the answer, or `undefined` if it has none.
 */
export type Answers =
  | Readonly<Record<string, Readonly<Record<string, unknown>>>>
  | ((
      question: Question,
      item: { readonly id: string; readonly ref: string },
    ) => Readonly<Record<string, unknown>> | undefined);

/** Data of the events that jobs wait for, by the name of the event. */
export type EventData = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** What happens to a job from outside. */
export interface Given {
  readonly answers?: Answers | undefined;
  readonly events?: EventData | undefined;
}

type Rows = Pick<Store, "table">;

/** A service whose time can be advanced. */
export interface TestProcess {
  readonly runner: Runner;
  readonly store: MortalStore;
  /** The store as its service reads it, which may decrypt. @default `store` */
  readonly rows?: Rows;
  readonly clock: TestClock;
  /** Whether a job is doing something that takes real time, as far as that is known. */
  isWorking(): boolean;
}

/** Turns of the event loop without a change, after which nothing more happens until time passes. */
const QUIET = 4;
/** The same while a job works, in turns of at least a millisecond. */
const QUIET_WORKING = 250;
/** Milliseconds to wait for a job that waits for something that is neither recorded nor a step. */
const PATIENCE = 5000;

/** Waits until nothing more happens without time passing or an answer, or the process has died. */
async function settle(process: TestProcess): Promise<void> {
  const { store } = process;
  let seen = -1;
  for (let quiet = 0; !store.isDead; quiet++) {
    const isWorking = process.isWorking();
    if (quiet >= (isWorking ? QUIET + QUIET_WORKING : QUIET)) return;
    // A real wait for what a step waits for: on a busy machine both are late.
    if (isWorking && quiet > QUIET) await new Promise((resolve) => setTimeout(resolve, 1));
    else await new Promise((resolve) => setImmediate(resolve));
    if (store.activity === seen && !store.isBusy) continue;
    seen = store.activity;
    quiet = 0;
  }
}

/** Lets a time pass immediately, with all that happens in it, in its order. */
export async function advance(process: TestProcess, duration: Duration): Promise<void> {
  const { clock, store } = process;
  const letPass = clock.hold();
  try {
    const until = clock.now().getTime() + toMilliseconds(duration);
    await settle(process);
    while (
      !store.isDead &&
      (clock.now().getTime() < until || (clock.next ?? Number.POSITIVE_INFINITY) <= until)
    ) {
      clock.skip(until);
      await settle(process);
    }
  } finally {
    letPass();
  }
}

/** Answers the questions of a job and skips its waits until it has ended or the process has died. */
export async function driveJob(process: TestProcess, jobId: string, given: Given = {}): Promise<void> {
  const letPass = process.clock.hold();
  try {
    await drive(process, jobId, given);
  } finally {
    letPass();
  }
}

async function drive(process: TestProcess, jobId: string, { answers, events }: Given): Promise<void> {
  const { store, clock, rows = store } = process;
  let waitingSince: number | undefined;
  while (!store.isDead) {
    await settle(process);
    const job = await rows.table("Job").get(jobId);
    if (store.isDead || !job || isTerminal(job.status)) return;
    if ((await answerNext(process, jobId, answers)) || (await sendNext(process, events))) {
      waitingSince = undefined;
    } else if (clock.isAwaited) {
      waitingSince = undefined;
      clock.skip();
    } else {
      waitingSince ??= performance.now();
      if (performance.now() - waitingSince > PATIENCE) throw new Error(await describeWait(process, job));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** Answers the first open question, of the job or of its children, for which there is an answer. */
async function answerNext(
  process: TestProcess,
  jobId: string,
  answers: Answers | undefined,
): Promise<boolean> {
  const { runner, store, rows = store } = process;
  for (const item of await casesOf(rows, jobId)) {
    if (item.status !== "awaiting" || !item.question) continue;
    const answer = find(answers, item.question, item);
    if (answer === undefined) continue;
    const { approvers, approvals = [] } = item.question;
    // Several people answer the same.
    const by = approvers === undefined ? undefined : `person ${approvals.length + 1}`;
    await Promise.race([runner.answer(jobId, item.id, { answer, message: null }, by), store.died]);
    return true;
  }
  for (const child of await rows.table("Job").ids({ where: { parent_id: jobId }, sort: "created_at" })) {
    if (await answerNext(process, child, answers)) return true;
  }
  return false;
}

/** Sends the first event that a job waits for and that there is data of. */
async function sendNext(
  { runner, store, rows = store }: TestProcess,
  events: EventData = {},
): Promise<boolean> {
  const { items } = await rows.table("EventWait").list({ limit: 10_000 });
  for (const { id: wait, name, event } of items) {
    const data = events[name];
    const id = wait.replaceAll("/", "-");
    // One that was sent does not fit.
    if (event !== null || !data || (await rows.table("ReceivedEvent").get(`${name}/${id}`))) continue;
    await Promise.race([runner.receive(name, { id, data }), store.died]);
    return true;
  }
  return false;
}

/** The cases of a job, by their refs. */
export async function casesOf(store: Rows, jobId: string): Promise<StoredCase[]> {
  const { items } = await store.table("Case").list({ where: { job_id: jobId }, limit: 10_000 });
  return items.toSorted((a, b) => (a.ref < b.ref ? -1 : 1));
}

function find(
  answers: Answers | undefined,
  question: Question,
  { id, ref }: StoredCase,
): Readonly<Record<string, unknown>> | undefined {
  if (typeof answers === "function") return answers(question, { id, ref });
  const { name } = question;
  return (name === undefined ? undefined : answers?.[name]) ?? answers?.[question.question] ?? answers?.[ref];
}

async function describeWait({ store, rows = store }: TestProcess, job: StoredJob): Promise<string> {
  const open = (await casesOf(rows, job.id)).find(({ question }) => question);
  if (open) return `Nobody answers "${open.question!.question}" of case "${open.ref}": give "answers"`;
  const wait = (await rows.table("EventWait").list({ where: { event: null }, limit: 1 })).items[0];
  if (wait) return `A job waits for an event "${wait.name}" that is not sent: give "events" whose data fits`;
  return `The job of agent "${job.agent_name}" waits for something that does not come: it is neither time, a question nor a step`;
}
