import { notKnown } from "../base/not-known.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";
import type { ModelFacts } from "../models/model-use.ts";

/** Tokens that a call of a model used. */
export interface ModelUsage {
  /** All tokens of the request, cached ones included. */
  readonly inputTokens: number;
  /** All tokens of the answer, reasoning included. */
  readonly outputTokens: number;
  /** Tokens of the request that were read from the provider's cache. @default 0 */
  readonly cachedTokens?: number;
  /** Tokens of the request that were written to the provider's cache. @default 0 */
  readonly cacheWriteTokens?: number;
  /** @default 0 */
  readonly reasoningTokens?: number;
}

/** What the function of a step reports of its attempt, while it runs. */
export interface StepReport {
  /** What the attempt costs, in place of the step's `cost`; counted also if the attempt fails. */
  readonly cost?: number;
  readonly usage?: Partial<ModelUsage>;
  /** The model that was asked for, and the one that answered. */
  readonly requested?: string;
  readonly model?: string;
  readonly provider?: string;
  readonly finishReason?: string;
  /** Milliseconds until the first token. */
  readonly firstTokenMs?: number;
  /** The provider's id of the answer. */
  readonly responseId?: string;
}

/** What is recorded of an attempt that has reported something. */
export interface Reported {
  readonly cost: number | undefined;
  readonly model: ModelFacts | undefined;
}

const NUMBERS = [
  ["input_tokens", "inputTokens"],
  ["output_tokens", "outputTokens"],
  ["cached_tokens", "cachedTokens"],
  ["cache_write_tokens", "cacheWriteTokens"],
  ["reasoning_tokens", "reasoningTokens"],
] as const;
const TEXTS = [
  ["requested", "requested"],
  ["name", "model"],
  ["provider", "provider"],
  ["finish_reason", "finishReason"],
  ["response_id", "responseId"],
] as const;

const REPORT: NamesOf<StepReport> = {
  ...{ cost: true, usage: true, requested: true, model: true, provider: true, finishReason: true },
  ...{ firstTokenMs: true, responseId: true },
};
const USAGE: NamesOf<ModelUsage> = {
  ...{ inputTokens: true, outputTokens: true, cachedTokens: true, cacheWriteTokens: true },
  reasoningTokens: true,
};
/** Sums and details that the AI SDK adds to a usage, which can be reported as it is. */
const OF_SDK = ["totalTokens", "inputTokenDetails", "outputTokenDetails", "cachedInputTokens", "raw"];

/** Later reports of an attempt replace what earlier ones said of the same. Throws what is not a valid report. */
export function addReport(before: Reported | undefined, report: StepReport): Reported {
  for (const name in report) if (!(name in REPORT)) refuse(report, "", REPORT);
  const { usage } = report;
  for (const name in usage) if (!(name in USAGE)) refuse(usage, "usage.", USAGE, OF_SDK);
  const facts: { -readonly [K in keyof ModelFacts]: ModelFacts[K] } = { ...before?.model };
  for (const [to, from] of TEXTS) {
    const text = report[from];
    if (text === undefined) continue;
    if (typeof text !== "string") throw new TypeError(`The ${from} that a step reports must be text`);
    facts[to] = text;
  }
  for (const [to, from] of NUMBERS) {
    const tokens = readNumber(usage?.[from], from);
    if (tokens !== undefined) facts[to] = tokens;
  }
  const first = readNumber(report.firstTokenMs, "firstTokenMs");
  if (first !== undefined) facts.first_token_ms = Math.round(first);
  const isEmpty = Object.keys(facts).length === 0;
  return { cost: readNumber(report.cost, "cost") ?? before?.cost, model: isEmpty ? undefined : facts };
}

function refuse(given: object, path: string, known: object, others: readonly string[] = []): void {
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && !(name in known) && !others.includes(name))
      throw new TypeError(`${path}${name} of what a step reports ${notKnown(name, Object.keys(known))}`);
}

function readNumber(value: unknown, name: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  throw new TypeError(`The ${name} that a step reports is ${String(value)}: it must be a number, 0 or more`);
}
