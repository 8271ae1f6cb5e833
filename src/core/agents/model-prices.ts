import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import type { ModelUsage } from "./step-report.ts";

/** Prices of a model per million tokens, in the currency in which the service counts cost. */
export interface ModelPrice {
  readonly input: number;
  readonly output: number;
  /** Tokens that are read from the provider's cache. @default `input` */
  readonly cached?: number;
  /** Tokens that are written to the provider's cache. @default `input` */
  readonly cacheWrite?: number;
}

const NAMES: NamesOf<ModelPrice> = { input: true, output: true, cached: true, cacheWrite: true };

/** Prices by the name of the model, without a date or a provider in it. */
export type PriceTable = Readonly<Record<string, ModelPrice>>;

/** What a call costs; `undefined` where that is not known. */
export type ModelCost = (
  usage: ModelUsage,
  about: { readonly model: string; readonly provider: string | undefined },
) => number | undefined;

/**
 * List prices in US dollars, as published at the end of 2025. Check them before you bill by them, and replace them with
 * `cost: prices({ … })` where yours differ.
 */
const LIST: PriceTable = {
  "claude-haiku-4-5": { input: 1, output: 5, cached: 0.1, cacheWrite: 1.25 },
  "claude-opus-4-1": { input: 15, output: 75, cached: 1.5, cacheWrite: 18.75 },
  "claude-opus-4-5": { input: 5, output: 25, cached: 0.5, cacheWrite: 6.25 },
  "claude-sonnet-4": { input: 3, output: 15, cached: 0.3, cacheWrite: 3.75 },
  "claude-sonnet-4-5": { input: 3, output: 15, cached: 0.3, cacheWrite: 3.75 },
  "gpt-4.1": { input: 2, output: 8, cached: 0.5 },
  "gpt-4.1-mini": { input: 0.4, output: 1.6, cached: 0.1 },
  "gpt-4.1-nano": { input: 0.1, output: 0.4, cached: 0.025 },
  "gpt-4o": { input: 2.5, output: 10, cached: 1.25 },
  "gpt-4o-mini": { input: 0.15, output: 0.6, cached: 0.075 },
  "gpt-5": { input: 1.25, output: 10, cached: 0.125 },
  "gpt-5-mini": { input: 0.25, output: 2, cached: 0.025 },
  "gpt-5-nano": { input: 0.05, output: 0.4, cached: 0.005 },
};

/**
 * The cost of calls by a price table, such as `prices.list`. A model's name may have a provider before it and a date after it:
 * `openai/gpt-5-mini-2025-08-07` has the price of `gpt-5-mini`. A model that is not in the table has no known cost.
 *
 * @example
 * await item.model("triage", request, call, { cost: prices({ "my-model": { input: 0.5, output: 2 } }) });
 */
export const prices: {
  (table: PriceTable): ModelCost;
  /** List prices in US dollars, as published at the end of 2025: check them before you bill by them. */
  readonly list: Readonly<Record<string, ModelPrice>>;
} = Object.assign(byTable, { list: LIST });

function byTable(table: PriceTable): ModelCost {
  for (const [model, price] of Object.entries(table)) refuseUnknown(price, NAMES, `prices: model "${model}"`);
  return (usage, { model }) => {
    const price = findPrice(table, model);
    if (!price) return undefined;
    const { inputTokens, outputTokens, cachedTokens = 0, cacheWriteTokens = 0 } = usage;
    const fresh = Math.max(0, inputTokens - cachedTokens - cacheWriteTokens);
    const sum =
      fresh * price.input +
      cachedTokens * (price.cached ?? price.input) +
      cacheWriteTokens * (price.cacheWrite ?? price.input) +
      outputTokens * price.output;
    return sum / 1e6;
  };
}

const DATE = /[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$/;

function findPrice(table: PriceTable, model: string): ModelPrice | undefined {
  const short = model.slice(model.lastIndexOf("/") + 1);
  for (const name of [model, short, short.replace(DATE, "")]) {
    if (Object.hasOwn(table, name)) return table[name];
  }
  return undefined;
}
