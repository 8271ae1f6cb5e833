import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Unit } from "../../entities/ledger.ts";
import { addModelUse } from "../../entities/model-uses.ts";
import { addSpending, type Spender } from "../../entities/spending.ts";
import type { StepKind } from "../../models/model-use.ts";
import type { WorkEntry } from "../../models/run-entry.ts";
import { costOf, type StepUnderWay } from "./step-under-way.ts";

const KINDS: Readonly<Record<StepKind, true>> = { model: true, tool: true, retrieval: true, person: true };

export function assertKind(kind: unknown, name: string): asserts kind is StepKind | undefined {
  if (kind === undefined || (typeof kind === "string" && Object.hasOwn(KINDS, kind))) return;
  throw new TypeError(
    `Step "${name}" has the kind ${String(kind)}: it must be ${Object.keys(KINDS).join(", ")}`,
  );
}

const NOTHING: WorkEntry = {};

/** What an entry of the log says of the work of an attempt. */
export function workOf({ kind, reported }: StepUnderWay): WorkEntry {
  const model = reported?.model;
  return kind || model ? { ...(kind && { kind }), ...(model && { model }) } : NOTHING;
}

/** Of whose step it is. */
interface UseOf {
  readonly run: { readonly spender: Spender };
  readonly isFailed: boolean;
}

/** Adds what an attempt has cost to the sums, and what it has used of a model; most attempts have nothing to add. */
export function countUse(unit: Unit, step: StepUnderWay, { run, isFailed }: UseOf): MaybePromise<void> {
  const cost = costOf(step);
  if (cost > 0 || step.kind === "model") return addUse(unit, step, { ...run.spender, isFailed, cost });
}

async function addUse(
  unit: Unit,
  { kind, reported }: StepUnderWay,
  of: Spender & Pick<UseOf, "isFailed"> & { readonly cost: number },
): Promise<void> {
  await addSpending(unit, of);
  if (kind === "model") await addModelUse(unit, { ...of, facts: reported?.model });
}
