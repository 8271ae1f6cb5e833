import { type AgentsModelLike, durableAgentsModel } from "./agents-model.ts";
import { durableLanguageModel, type LanguageModelLike } from "./language-model.ts";
import type { Durable, DurableOptions } from "./options.ts";

/** A model of the AI SDK, or of the OpenAI Agents SDK. */
export type DurableModel = LanguageModelLike | AgentsModelLike;

/**
 * The model, with each of its calls as a step of kind `model` of a job or case: made once, and answered from the record
 * when the job resumes. What it streams is emitted as it comes; code gets the stream once the call is recorded.
 *
 * @example
 * const { text } = await generateText({ model: durable(openai("gpt-5-mini"), item), prompt });
 */
export function durable<M extends DurableModel>(model: M, handle: Durable, options: DurableOptions = {}): M {
  if (typeof model === "object" && model !== null) {
    if ("doGenerate" in model) return durableLanguageModel(model, handle, options) as M;
    if ("getResponse" in model) return durableAgentsModel(model, handle, options) as M;
  }
  throw new TypeError(
    'durable was called without a model object: pass one of a provider, such as openai("gpt-5-mini"), not its name',
  );
}
