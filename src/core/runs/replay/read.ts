import { toJsonValue } from "../../agents/json-value.ts";
import type { CallEntry } from "../../models/run-entry.ts";
import { type Call, mayBeLeft } from "./call.ts";
import type { CallScope } from "./call-scope.ts";
import { fromRecordedError, toRecordedError } from "./run-errors.ts";

type ReadEnd = Pick<CallEntry, "result" | "error">;

/**
 * Reads the job, or a case, as it is stored now. What the handler reads outside of steps is recorded, and is the same in
 * each run; in a step's function it is not, as the step's result is.
 */
export function readStored<T>(
  scope: CallScope,
  work: () => Promise<T>,
  isInStep: boolean | undefined,
): Promise<T> {
  const { run } = scope;
  // Nothing is recorded that follows once the run must end.
  if (isInStep || run.isInterrupted) return work();
  if (isInStep === undefined || scope.isUnplaced) return mayBeLeft(readUnplaced(scope, work));
  try {
    const call = scope.takeRead();
    if (!call) return work();
    const recorded = call.takeEntry();
    // Without a detour: a long run is replayed through here.
    if (recorded && !recorded.error) return run.gate.delivered(call, recorded.result as T)!;
    return mayBeLeft(
      readOutside(scope, call, recorded ? async () => recorded : () => record(scope, call, work)),
    );
  } catch (error) {
    return mayBeLeft(Promise.reject(error));
  }
}

async function readOutside<T>(scope: CallScope, call: Call, end: () => Promise<ReadEnd>): Promise<T> {
  const { error, result } = await end();
  await scope.run.delivered(call);
  if (error) throw fromRecordedError(error);
  return result as T;
}

async function record(scope: CallScope, call: Call, work: () => Promise<unknown>): Promise<ReadEnd> {
  const { run } = scope;
  await run.enter(call);
  const done = run.activity.keepBusy();
  try {
    const end = await readNow(scope, call, work);
    await run.ledger.write(async (unit) => {
      await unit.record(run.jobId, { type: "call", call: "read", ...call.fields, ...end });
      unit.afterwards((seq) => run.gate.settle(call, seq));
    });
    return end;
  } finally {
    done();
  }
}

async function readNow({ run }: CallScope, { label }: Call, work: () => Promise<unknown>): Promise<ReadEnd> {
  try {
    return { result: toJsonValue(await run.life.orEnd(work), `The result of ${label}`) };
  } catch (error) {
    if (run.isInterrupted || run.isSealed) throw error;
    const { name, message } = toRecordedError(error);
    return { error: { name, message } };
  }
}

/**
 * It is not known whether a step's function reads, as that was called before the run was known to read. If the handler
 * reads outside of steps there in a later run, that one is refused.
 */
async function readUnplaced<T>(scope: CallScope, work: () => Promise<T>): Promise<T> {
  const { run, caseId } = scope;
  const made = run.gate.turns.line;
  scope.noteUnplaced(made);
  const value = await work();
  await run.ledger.write((unit) =>
    unit.record(run.jobId, { type: "mark", mark: "read", case_id: caseId, made }),
  );
  return value;
}
