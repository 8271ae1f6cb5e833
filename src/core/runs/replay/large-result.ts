import { isLongerThan } from "../../agents/json-value.ts";
import { UnreadableResultError } from "../../entities/large-results.ts";
import { type FileValue, LARGE_RESULT, type WrittenFile } from "../../models/file.ts";
import type { CallEntry } from "../../models/run-entry.ts";
import type { Call } from "./call.ts";
import type { Run } from "./run.ts";

/** Characters of JSON, approximately, beyond which a step's result is stored as a content that its record names. */
export const LARGE = 256 * 1024;

/** Stores a result that is too large for the record of its step; nothing of another one. */
export function writeLarge(run: Run, result: unknown): Promise<WrittenFile> | undefined {
  const { files, ledger } = run.parts;
  if (!files?.keepsValues || !isLongerThan(LARGE, result)) return undefined;
  return run.ledger.prepare(() => files.writeJson(LARGE_RESULT, ledger.toJson(result)));
}

/** Gives a recorded result that is stored apart to the handler, at its place among the others: it is read only now. */
export async function readLarge<T>(run: Run, call: Call, { result }: CallEntry): Promise<T> {
  call.move("hold");
  const done = run.activity.keepBusy();
  let value: unknown;
  try {
    value = await run.life.orEnd(() => run.ledger.read(() => read(run, result as FileValue)));
  } catch (error) {
    if (!(error instanceof UnreadableResultError)) throw error;
    // A handler that was given the error could take another way than the record.
    run.end({ to: "failed", reason: "error", message: `${call.label}: ${error.message}` });
    throw run.life.error;
  } finally {
    done();
    run.gate.release(call);
  }
  await run.delivered(call);
  return value as T;
}

function read({ parts: { readResult } }: Run, file: FileValue): Promise<unknown> {
  if (readResult) return readResult(file);
  throw new UnreadableResultError("its result is stored apart, and cannot be read here");
}
