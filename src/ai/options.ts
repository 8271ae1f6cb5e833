import type { ModelCost } from "../core/agents/model-prices.ts";
import type { CaseHandle, JobHandle, StepOptions } from "../core/agents/run-context.ts";

/** How the calls of a model are made as steps. */
export interface DurableOptions extends Pick<StepOptions, "timeout" | "backoff"> {
  /** Name of its steps. Models that a case calls at the same time need different ones. @default "model" */
  readonly name?: string;
  /** The name of the model in records and prices. @default as its library gives it */
  readonly model?: string;
  /** Attempts after the first, of errors that may pass. @default 2 */
  readonly retries?: number;
  /** What the tokens of a call cost. @default list prices of some models */
  readonly cost?: ModelCost;
  /** What a call may cost. @default by the length of the request and its limit of tokens */
  readonly estimate?: number;
}

/** A job or a case: what steps are made of. */
export type Durable = Pick<JobHandle | CaseHandle, "step" | "model">;
