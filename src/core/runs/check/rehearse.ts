import type { HostedAgent } from "../../agents/registry.ts";
import type { Logger } from "../../base/log.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { startTimer } from "../../base/timer.ts";
import type { Ledger } from "../../entities/ledger.ts";
import type { StoredJob } from "../../models/job.ts";
import { type AgentProcess, ProcessEndedError } from "../isolation/agent-process.ts";
import type { Slot } from "../queue/slot.ts";
import { callHandler, type HandlerCall } from "../replay/call-handler.ts";
import type { ChildrenOfJob } from "../replay/child-handle.ts";
import type { EventsOfJob } from "../replay/event-wait.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import type { Rehearsed } from "../replay/rehearsal.ts";
import { Run } from "../replay/run.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import type { RunParts } from "../replay/run-parts.ts";
import type { RunRecord } from "../replay/run-record.ts";

/** Most milliseconds that a rehearsal takes, and that it waits for one recorded call. */
const LONGEST = 10_000;
const PATIENCE = 1000;

export interface Rehearsal extends Pick<HandlerCall, "values" | "readJob" | "readCase"> {
  readonly job: StoredJob;
  /** Reads what is recorded of it, for each try. */
  readonly readRecord: () => MaybePromise<RunRecord>;
  readonly agent: HostedAgent;
  /** Reads a result that is stored apart from its record; absent where the record has all of them. */
  readonly readResult?: RunParts["readResult"];
  /** Removes secrets, as the names of recorded calls are without them. */
  readonly redact: (text: string) => string;
  /** Most milliseconds that it takes. @default 10 s */
  readonly longest?: number | undefined;
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, with: () => silent };

/** A run that is not one of the jobs that have a slot. */
const NO_SLOT = { isHeld: true, release() {}, retake: async () => {}, leave() {} } as unknown as Slot;

/** Nothing is stored. */
const NO_LEDGER = {
  now: () => new Date().toISOString(),
  write: () => new Promise<never>(() => {}),
} as unknown as Ledger;

/** No call begins that is not recorded. */
const NO_CALLS = { children: () => ({}) as ChildrenOfJob, events: {} as EventsOfJob };

/**
 * Tells whether a job's record fits an agent's code: gives it to the handler, and runs and stores nothing. The handler of
 * an isolated agent runs in a process of its own; if that ends or hangs, the job would fail with `crashed`.
 */
export async function rehearse(parts: HandlerParts, rehearsal: Rehearsal): Promise<Rehearsed> {
  const { agent, readRecord } = rehearsal;
  const { processes } = parts;
  let record = await readRecord();
  if (!agent.definition.isolate || !processes) return rehearseOnce(parts, rehearsal, { record });
  for (;;) {
    let isMisled = false;
    const onMisled = (): void => {
      isMisled = true;
    };
    const tried = { record, onMisled };
    const rehearsed = await processes
      .rehearse(agent, (process) => rehearseOnce(parts, rehearsal, { ...tried, process }))
      .catch(crashed);
    if (!isMisled) return rehearsed;
    const { changes } = record;
    record = await readRecord();
    for (const [name, is] of changes) record.changes.set(name, is);
  }
}

interface Try {
  readonly record: RunRecord;
  readonly process?: AgentProcess;
  /** The handler was given a wrong answer of `job.changed`; the record has the right one. */
  readonly onMisled?: () => void;
}

function rehearseOnce(
  parts: HandlerParts,
  rehearsal: Rehearsal,
  { record, process, onMisled }: Try,
): Promise<Rehearsed> {
  const { job, agent, redact, readResult, longest = LONGEST } = rehearsal;
  const run = new Run({
    jobId: job.id,
    agent: agent.slug,
    epoch: job.run_count,
    instructions: null,
    account: { workspace_id: job.job_context.workspace_id, api_key: null, api_url: null },
    stopGrace: 0,
    timeout: undefined,
    code: { version: agent.definition.version, fingerprint: agent.code },
    patience: PATIENCE,
    ...{ redact, readResult },
    slot: NO_SLOT,
    ledger: NO_LEDGER,
    openLog: () => silent,
    clock: () => new Date(),
    startTimer,
  });
  const relaunch = (): void => {
    onMisled?.();
    run.end({ to: "cancelled", reason: "interrupted", message: "It is tried again" });
  };
  return run.rehearse(
    record,
    () => callHandler({ ...parts, log: silent }, { ...rehearsal, run, process, relaunch, ...NO_CALLS }),
    longest,
    process && (() => process.answers()),
  );
}

/** The process could not load the agent. */
function crashed(error: unknown): Rehearsed {
  if (!(error instanceof ProcessEndedError)) throw error;
  const end: RunEnd = { to: "failed", reason: "crashed", message: error.message };
  return { end, notMade: [], skipped: [], missing: undefined, next: [], line: 0 };
}
