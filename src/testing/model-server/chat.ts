import { type AnswerParts, askedTools, countTokens, wordsOf } from "./messages.ts";

/** An answer of `/v1/chat/completions`. */
export function chatAnswer(parts: AnswerParts): unknown {
  const tool_calls = toolCallsOf(parts);
  return {
    ...headOf(parts, "chat.completion"),
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: parts.text ?? null,
          refusal: null,
          ...(tool_calls.length > 0 && { tool_calls }),
        },
        logprobs: null,
        finish_reason: finishOf(parts),
      },
    ],
    usage: usageOf(parts),
  };
}

/** The same as server-sent events, word by word. */
export function* chatChunks(parts: AnswerParts): Generator<string> {
  const head = headOf(parts, "chat.completion.chunk");
  const chunk = (delta: unknown, finish_reason: string | null = null) =>
    event({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  yield chunk({ role: "assistant", content: "" });
  if (parts.text) for (const content of wordsOf(parts.text)) yield chunk({ content });
  for (const [index, call] of toolCallsOf(parts).entries()) yield chunk({ tool_calls: [{ index, ...call }] });
  yield chunk({}, finishOf(parts));
  const options = parts.request.body.stream_options as { include_usage?: boolean } | undefined;
  if (options?.include_usage) yield event({ ...head, choices: [], usage: usageOf(parts) });
  yield "data: [DONE]\n\n";
}

function headOf({ id, request }: AnswerParts, object: string) {
  return { id: `chatcmpl-${id}`, object, created: 1_767_225_600, model: request.model };
}

function toolCallsOf(parts: AnswerParts) {
  return askedTools(parts).map(({ id, name, arguments: given }) => ({
    ...{ id, type: "function" },
    function: { name, arguments: given },
  }));
}

function finishOf({ toolCalls = [] }: AnswerParts): string {
  return toolCalls.length > 0 ? "tool_calls" : "stop";
}

function usageOf(parts: AnswerParts) {
  const { input, output } = countTokens(parts);
  return {
    ...{ prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
