import type { Code } from "../../models/job.ts";
import type { Call } from "./call.ts";
import type { RunEnd } from "./run-errors.ts";
import type { RunRecord } from "./run-record.ts";

/** What the handler does if the record continues with a call that it does not make. */
export interface Found {
  /** It makes another call. */
  readonly call?: Call | undefined;
  /** It has ended; with this error, where it failed. */
  readonly ended?: { readonly error?: string };
}

/**
 * How a run ends whose handler does not make a recorded call. Where the call was recorded by other code, the job is held;
 * where it was this code, the handler does not make the same calls each time.
 */
export function toMismatch(
  expected: Call,
  found: Found,
  { record, code }: { readonly record: RunRecord; readonly code: Code },
): RunEnd {
  const line = expected.begunLine ?? (expected.line || expected.made || 0);
  const recorded = record.codeAt(line);
  const what = describe(expected, found);
  const isSameCode = recorded.fingerprint !== null && recorded.fingerprint === code.fingerprint;
  const isCopied = line <= record.copiedTo;
  if (isSameCode && !isCopied) {
    const message = `${what}: given the same results it must make the same calls in the same order, and none inside a step's function. Retry the job from the start, or restore the previous code.`;
    return { to: "failed", reason: "nondeterministic", message };
  }
  const message = isSameCode
    ? `${what}. The call was copied from the job that this one is a fork of, whose input is different. Continue the job without the calls that no longer fit, restart it, or stop it and fork from an earlier call.`
    : `${what}. The call was recorded by ${name(recorded)}; the current code is ${name(code)}. The job resumes by itself once the code fits its record. You can also continue it with the current code, restart it, or stop it.`;
  const held = {
    expected: expected.label,
    found: found.call?.label ?? null,
    recorded,
    present: { version: code.version, fingerprint: code.fingerprint },
  };
  return { to: "failed", reason: "code_changed", message, held };
}

function describe(expected: Call, { call, ended }: Found): string {
  if (ended) {
    const how = ended.error === undefined ? "ended" : `failed (${ended.error})`;
    return `The handler ${how}, but the record continues with ${expected.label}`;
  }
  const now = call ? `now makes ${call.label}` : "has not made the calls of that name before it";
  const note = call?.note === undefined ? "" : `, which is asked again (${call.note})`;
  return `The record continues with ${expected.label}, but the handler ${now}${note}`;
}

function name({ version, fingerprint }: Code): string {
  if (version === null) return "an unknown version";
  return `version ${version}${fingerprint === null ? "" : ` (code ${fingerprint})`}`;
}
