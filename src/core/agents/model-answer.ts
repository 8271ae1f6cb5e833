import type { ModelUsage, StepReport } from "./step-report.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * What an answer says of itself: of the chat and responses APIs of OpenAI and those that follow them, the messages API of
 * Anthropic, and the AI SDK. What is in none of these forms is absent.
 */
export function readAnswer(answer: unknown): StepReport {
  if (!isFields(answer)) return {};
  const response = fields(answer.response);
  const usage = readUsage(answer.usage);
  const report = {
    model: textOf(answer.model) ?? textOf(response.modelId),
    responseId: textOf(answer.id) ?? textOf(response.id),
    finishReason: readFinish(answer),
  };
  const known = Object.entries(report).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(known), ...(usage && { usage }) };
}

function readFinish(answer: Fields): string | undefined {
  const choice = Array.isArray(answer.choices) ? fields(answer.choices[0]) : {};
  return (
    textOf(choice.finish_reason) ??
    textOf(answer.stop_reason) ??
    textOf(fields(answer.finishReason).unified) ??
    textOf(answer.finishReason) ??
    textOf(fields(answer.incomplete_details).reason) ??
    (Array.isArray(answer.output) ? textOf(answer.status) : undefined)
  );
}

/** Tokens as any of these APIs counts them; `undefined` where an answer has none. */
export function readUsage(given: unknown): ModelUsage | undefined {
  if (!isFields(given)) return undefined;
  if (isFields(given.inputTokens)) {
    const { inputTokens: input, outputTokens: output } = given as Record<string, Fields>;
    return usageOf(input!.total, output?.total, input!.cacheRead, input!.cacheWrite, output?.reasoning);
  }
  if ("inputTokens" in given || "outputTokens" in given) {
    const { inputTokens, outputTokens, cachedInputTokens, reasoningTokens } = given;
    return usageOf(inputTokens, outputTokens, cachedInputTokens, undefined, reasoningTokens);
  }
  if ("prompt_tokens" in given) {
    const cached = fields(given.prompt_tokens_details).cached_tokens;
    const reasoning = fields(given.completion_tokens_details).reasoning_tokens;
    return usageOf(given.prompt_tokens, given.completion_tokens, cached, undefined, reasoning);
  }
  if (!("input_tokens" in given)) return undefined;
  const { input_tokens, output_tokens } = given;
  const isSplit = "cache_read_input_tokens" in given || "cache_creation_input_tokens" in given;
  if (isSplit) {
    // These are not in the number of input tokens.
    const read = countOf(given.cache_read_input_tokens) ?? 0;
    const write = countOf(given.cache_creation_input_tokens) ?? 0;
    return usageOf((countOf(input_tokens) ?? 0) + read + write, output_tokens, read, write, undefined);
  }
  const cached = fields(given.input_tokens_details).cached_tokens;
  const reasoning = fields(given.output_tokens_details).reasoning_tokens;
  return usageOf(input_tokens, output_tokens, cached, undefined, reasoning);
}

function usageOf(
  input: unknown,
  output: unknown,
  cached: unknown,
  written: unknown,
  reasoning: unknown,
): ModelUsage | undefined {
  const [inputTokens, outputTokens] = [countOf(input), countOf(output)];
  if (inputTokens === undefined && outputTokens === undefined) return undefined;
  const more = {
    cachedTokens: countOf(cached),
    cacheWriteTokens: countOf(written),
    reasoningTokens: countOf(reasoning),
  };
  const known = Object.entries(more).filter(([, count]) => count !== undefined && count > 0);
  return { inputTokens: inputTokens ?? 0, outputTokens: outputTokens ?? 0, ...Object.fromEntries(known) };
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
