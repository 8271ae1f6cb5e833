import { notKnown } from "../base/not-known.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";
import type { CaseNodeUpdateInput } from "../models/case-node-update.ts";
import { unknownInFields } from "./fields.ts";
import type { FieldsInput } from "./fields-input.ts";
import type {
  AskOptions,
  CallOptions,
  CaseHandle,
  JobHandle,
  StartOptions,
  StepOptions,
  WaitOptions,
} from "./run-context.ts";

const CALL: NamesOf<CallOptions> = { key: true };
const STEP: NamesOf<StepOptions> = {
  ...CALL,
  ...{ retries: true, backoff: true, retryIf: true, timeout: true, cost: true, kind: true, input: true },
};
const ASK: NamesOf<AskOptions<FieldsInput>> = {
  ...CALL,
  ...{ question: true, fields: true, deadline: true, onTimeout: true, default: true, assignTo: true },
  ...{ files: true, remind: true, escalate: true, approvers: true },
};
const BACKOFF: NamesOf<NonNullable<StepOptions["backoff"]>> = { initial: true, max: true, factor: true };
const START: NamesOf<StartOptions> = {
  ...CALL,
  ...{ name: true, detached: true, instructions: true, passParameters: true },
};
const WAIT: NamesOf<WaitOptions> = { ...CALL, where: true, deadline: true, since: true };
const CLOSE: NamesOf<NonNullable<Parameters<CaseHandle["close"]>[1]>> = { cost: true, name: true };

const CASE: NamesOf<Parameters<JobHandle["openCase"]>[0]> = { id: true, name: true, description: true };
const ENTRY: NamesOf<CaseNodeUpdateInput> = {
  ...{ name: true, payload: true, cost: true, is_final: true, error: true, warning: true },
};
const ESCALATE: NamesOf<NonNullable<AskOptions<FieldsInput>["escalate"]>> = { after: true, to: true };

/** The options of each call of a job or case. */
const KNOWN = {
  step: STEP,
  backoff: BACKOFF,
  ask: ASK,
  sleep: CALL,
  start: START,
  waitFor: WAIT,
  close: CLOSE,
  update: CALL,
  openCase: CASE,
  entry: ENTRY,
  escalate: ESCALATE,
} satisfies Record<string, Readonly<Record<string, true>>>;

/**
 * Throws a `TypeError` that names an option which a call does not know: it would be ignored, and the call would do
 * something else than what is written.
 */
export function assertKnown(call: keyof typeof KNOWN, options: object | undefined, of: string): void {
  const known: Readonly<Record<string, true>> = KNOWN[call];
  for (const name in options) {
    if (known[name] === true || (options as Record<string, unknown>)[name] === undefined) continue;
    if (call === "ask" && name === "name")
      throw new TypeError(
        `Option name of ${of} is not known: the name comes first, as in ask("approve", { … })`,
      );
    throw new TypeError(`Option ${name} of ${of} ${notKnown(name, Object.keys(known))}`);
  }
}

/** The same for the options of a question, and the entries of its form. */
export function assertAskOptions(name: string, options: AskOptions<FieldsInput>): void {
  assertKnown("ask", options, `ask("${name}")`);
  if (options.escalate) assertKnown("escalate", options.escalate, `escalate of ask("${name}")`);
  const unknown = unknownInFields(options.fields);
  if (unknown !== undefined) throw new TypeError(`Option fields of ask("${name}"): ${unknown}`);
}

/** The same for the options of a step, of the job or a case. */
export function assertStepOptions(name: string, options: StepOptions): void {
  assertKnown("step", options, `step "${name}"`);
  if (options.backoff) assertKnown("backoff", options.backoff, `the backoff of step "${name}"`);
}
