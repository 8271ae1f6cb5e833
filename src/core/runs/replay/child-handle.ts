import { createHash, randomUUID } from "node:crypto";
import { toSlug } from "../../agents/identity.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import { assertKnown } from "../../agents/known-options.ts";
import type { ChildHandle, StartableAgent, StartOptions } from "../../agents/run-context.ts";
import { LONGEST_MESSAGE, messageOf, shorten } from "../../base/error-text.ts";
import { isRecord } from "../../base/is-record.ts";
import { createJob, type NewJob } from "../../entities/create-job.ts";
import { ownerOf } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { CallEntry, RecordedError } from "../../models/run-entry.ts";
import { type Call, mayBeLeft } from "./call.ts";
import type { CallScope } from "./call-scope.ts";
import { passFiles } from "./made-files.ts";
import { ChildFailedError } from "./run-errors.ts";

/** A child that a handler asks for. */
export interface ChildOrder {
  /** Its job id. */
  readonly id: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly options: StartOptions;
  /** The call that starts it: its key, else the agent's slug. */
  readonly call: string;
}

/** The children of one job. */
export interface ChildrenOfJob {
  /** Checks an order; throws what is wrong with it. */
  prepare(order: ChildOrder): Promise<NewJob>;
  /** Has a child that is stored run when its turn comes. */
  queue(child: StoredJob): void;
  /** Stops a child in the unit that records the call; only records it where there is nothing to stop. */
  stop(id: string, order: StopOrder): Promise<void>;
  /** Resolves when the job next ends, or is removed; `cancel` ends the wait. */
  nextEnd(id: string): { readonly ended: Promise<unknown>; cancel(): void };
}

/** How a call that stops a child is stored. */
export interface StopOrder {
  /** Stores something of the parent's run. */
  write<T>(work: (unit: Unit) => Promise<T>): Promise<T>;
  /** Records the call. */
  record(unit: Unit): Promise<void>;
}

type Ended = Pick<CallEntry, "result" | "error">;

/** What a handler passed to `job.start`. */
export interface GivenStart {
  readonly agent: string | StartableAgent;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly options: StartOptions;
}

/** Starts a child, or finds the one that is recorded: the child is stored in the unit that records the call. */
export async function startChild(
  scope: CallScope,
  children: ChildrenOfJob,
  given: GivenStart,
): Promise<ChildHandle<never>> {
  const { run } = scope;
  const { options } = given;
  const agent = typeof given.agent === "string" ? given.agent : toSlug(given.agent.name);
  if (run.gate.isLive) assertKnown("start", options, `start("${agent}")`);
  const fields = readStartFields(agent, given.fields);
  const call = scope.take("start", agent, options.key);
  let entry: Ended | undefined = call.takeEntry();
  if (!entry) {
    await run.enter(call);
    const order = { id: childId(scope, call), agent, fields, options, call: call.key ?? agent };
    entry = await begin(scope, call, { children, order });
  }
  await run.delivered(call);
  if (entry.error) throw new ChildFailedError(entry.error.message);
  return new RunChild(scope, children, { id: entry.result as string, agent });
}

/** The fields of a start as they are stored; throws a `TypeError` if JSON would change them. */
export function readStartFields(agent: string, fields: unknown): Record<string, unknown> {
  const what = `The fields of a job of agent "${agent}"`;
  if (!isRecord(fields)) throw new TypeError(`${what} must be an object`);
  return toJsonValue(fields, what) as Record<string, unknown>;
}

async function begin(
  { run }: CallScope,
  call: Call,
  { children, order }: { readonly children: ChildrenOfJob; readonly order: ChildOrder },
): Promise<Ended> {
  const prepared = await run.life.orEnd(() =>
    run.ledger
      .read(() => children.prepare(order))
      .then(
        (input) => ({ input }),
        (error: unknown) => ({ error }),
      ),
  );
  return run.ledger.write(async (unit) => {
    if ("error" in prepared) {
      const message = shorten(run.parts.redact(messageOf(prepared.error)), LONGEST_MESSAGE);
      const error: RecordedError = { name: "ChildFailedError", message };
      await unit.record(run.jobId, { type: "call", call: "start", ...call.fields, error });
      unit.afterwards((seq) => run.gate.settle(call, seq));
      return { error };
    }
    // The id may belong to a job that another run of a parent of this id has started, deleted or not.
    const isTaken = (await unit.tx.get("Job", order.id)) ?? (await unit.tx.get("DeletedJob", order.id));
    const id = isTaken ? randomUUID() : order.id;
    const { job_context } = prepared.input;
    const input = { ...prepared.input, id, job_context: { ...job_context, job_id: id } };
    const { job } = await createJob(unit, input);
    await passFiles(unit, run, { value: job.job_fields, from: run.jobId, to: ownerOf(job), origin: "field" });
    // The call's line comes last: its number is the one that is passed on.
    await unit.record(run.jobId, { type: "call", call: "start", ...call.fields, result: id });
    unit.afterwards((seq) => {
      run.gate.settle(call, seq);
      children.queue(job);
    });
    return { result: id };
  });
}

/** The same for the same call of the same job. */
function childId({ run }: CallScope, { name, key, n }: Call): string {
  const call = [run.jobId, run.record.generation, key === undefined ? name : [key], n];
  const hash = createHash("sha256").update(JSON.stringify(call)).digest("hex");
  return [
    hash.slice(0, 8),
    hash.slice(8, 12),
    hash.slice(12, 16),
    hash.slice(16, 20),
    hash.slice(20, 32),
  ].join("-");
}

/** A child, with the wait for its end recorded. */
class RunChild implements ChildHandle<never> {
  readonly id: string;
  readonly #agent: string;
  readonly #scope: CallScope;
  readonly #children: ChildrenOfJob;
  #result: Promise<never> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(
    scope: CallScope,
    children: ChildrenOfJob,
    { id, agent }: { readonly id: string; readonly agent: string },
  ) {
    this.#scope = scope;
    this.#children = children;
    this.id = id;
    this.#agent = agent;
  }

  result(): Promise<never> {
    this.#result ??= mayBeLeft(this.#wait());
    return this.#result;
  }

  stop(): Promise<void> {
    this.#stopped ??= mayBeLeft(this.#stop());
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { run } = this.#scope;
    const call = this.#scope.take("stop", this.#agent, this.id);
    if (!call.takeEntry()) {
      await run.enter(call);
      const order: StopOrder = {
        write: (work) => run.ledger.write(work),
        record: async (unit) => {
          await unit.record(run.jobId, { type: "call", call: "stop", ...call.fields });
          unit.afterwards((seq) => run.gate.settle(call, seq));
        },
      };
      await run.ledger.read(() => this.#children.stop(this.id, order));
    }
    await run.delivered(call);
  }

  async #wait(): Promise<never> {
    const { run } = this.#scope;
    const call = this.#scope.take("child", this.#agent, this.id);
    let entry: Ended | undefined = call.takeEntry();
    if (!entry) {
      await run.enter(call);
      entry = await this.#end(call);
    }
    await run.delivered(call);
    const { error, result } = entry;
    if (error) throw new ChildFailedError(error.message, this.id, error);
    return result as never;
  }

  /** Waits until the child has ended, and records that. */
  async #end(call: Call): Promise<Ended> {
    const { run } = this.#scope;
    for (;;) {
      // Subscribed before the check, so that its end cannot be missed.
      const { ended, cancel } = this.#children.nextEnd(this.id);
      try {
        const entry = await this.#record(call);
        if (entry) return entry;
        const isOpen = async (unit: Unit): Promise<boolean> => {
          const child = await unit.tx.get("Job", this.id);
          return child !== undefined && !isTerminal(child.status) && isWoken(unit, run.jobId, child);
        };
        await run.activity.wait(() => ended, { for: "child", isOpen });
      } finally {
        cancel();
      }
    }
  }

  /** Records the child's end, or that it is waited for. */
  #record(call: Call): Promise<Ended | undefined> {
    const { run } = this.#scope;
    return run.ledger.write(async (unit) => {
      const child = await unit.tx.get("Job", this.id);
      if (child && !isTerminal(child.status)) {
        if (!call.begun) {
          const begun = { type: "begun", call: "child", ...call.fields, attempt: 1 } as const;
          await unit.record(run.jobId, begun);
          unit.afterwards(() => {
            call.begun = { ...begun, at: unit.now };
          });
        }
        return undefined;
      }
      const started_at = call.begun?.at;
      const end = toEnd(this.id, this.#agent, child);
      if (end.result !== undefined)
        await passFiles(unit, run, { value: end.result, from: this.id, to: run.owner, origin: "step" });
      await unit.record(run.jobId, {
        ...{ type: "call", call: "child", ...call.fields, ...(started_at && { started_at }), ...end },
      });
      unit.afterwards((seq) => run.gate.settle(call, seq));
      return end;
    });
  }
}

/**
 * Whether the end of a child wakes a job: that of its parent, or a fork of that. A fork of a fork stays in memory, as the job
 * between them may be removed.
 */
async function isWoken(unit: Unit, jobId: string, { parent }: StoredJob): Promise<boolean> {
  if (parent?.job_id === jobId) return true;
  return (await unit.tx.get("Job", jobId))?.forked_from?.job_id === parent?.job_id;
}

const FAILED_CHILDREN = /^(?:Child "[^"]*" of agent "[^"]*" (?:failed|was cancelled): )+/;

function toEnd(id: string, agent: string, child: StoredJob | undefined): Ended {
  const who = `Child "${id}" of agent "${agent}"`;
  const name = "ChildFailedError";
  if (!child)
    return { error: { name, message: `${who} no longer exists: it was removed before its result was read` } };
  const { status, stop_reason: reason } = child;
  if (status === "completed") return { result: child.result };
  // If the child failed because of its own children, only the first cause: the whole chain would be long.
  const why = child.error?.replace(FAILED_CHILDREN, "");
  const message = `${who} ${status === "failed" ? "failed" : "was cancelled"}${why ? `: ${why}` : ""}`;
  return {
    error: { name, message: shorten(message, LONGEST_MESSAGE), status, ...(reason && { reason }) },
  };
}
