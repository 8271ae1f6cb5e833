import type { Unit } from "../../entities/ledger.ts";
import { addModelUse } from "../../entities/model-uses.ts";
import { addSpending } from "../../entities/spending.ts";
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

/** What an entry of the log says of the work of an attempt. */
export function workOf({ kind, reported }: StepUnderWay): WorkEntry {
  return { ...(kind && { kind }), ...(reported?.model && { model: reported.model }) };
}

/** Adds what an attempt has cost to the sums, and what it has used of a model. */
export async function countUse(
  unit: Unit,
  step: StepUnderWay,
  of: { readonly jobId: string; readonly agent: string; readonly isFailed: boolean },
): Promise<void> {
  const cost = costOf(step);
  await addSpending(unit, { ...of, cost });
  if (step.kind === "model") await addModelUse(unit, { ...of, facts: step.reported?.model, cost });
}
