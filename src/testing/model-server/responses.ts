import { type AnswerParts, askedTools, countTokens, wordsOf } from "./messages.ts";

/** An answer of `/v1/responses`. */
export function responsesAnswer(parts: AnswerParts): Record<string, unknown> {
  const { input, output } = countTokens(parts);
  return {
    ...{ id: `resp_${parts.id}`, object: "response", created_at: 1_767_225_600, status: "completed" },
    ...{
      error: null,
      incomplete_details: null,
      instructions: null,
      metadata: {},
      model: parts.request.model,
    },
    ...{ parallel_tool_calls: true, tool_choice: "auto", tools: [], temperature: 1, top_p: 1 },
    output: itemsOf(parts),
    usage: {
      ...{ input_tokens: input, output_tokens: output, total_tokens: input + output },
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  };
}

/** The same as server-sent events, word by word. */
export function* responsesEvents(parts: AnswerParts): Generator<string> {
  const whole = responsesAnswer(parts);
  let sequence_number = 0;
  const event = (type: string, data: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...data })}\n\n`;
  const begun = { ...whole, status: "in_progress", output: [], usage: null };
  yield event("response.created", { response: begun });
  yield event("response.in_progress", { response: begun });
  for (const [output_index, item] of itemsOf(parts).entries()) {
    const place = { output_index, item_id: item.id };
    if (item.type === "function_call") {
      const { arguments: given, name } = item;
      const empty = { ...item, arguments: "", status: "in_progress" };
      yield event("response.output_item.added", { output_index, item: empty });
      yield event("response.function_call_arguments.delta", { ...place, delta: given });
      yield event("response.function_call_arguments.done", { ...place, name, arguments: given });
    } else {
      const text = parts.text ?? "";
      const part = { type: "output_text", text: "", annotations: [] };
      yield event("response.output_item.added", {
        output_index,
        item: { ...item, content: [], status: "in_progress" },
      });
      yield event("response.content_part.added", { ...place, content_index: 0, part });
      for (const delta of wordsOf(text))
        yield event("response.output_text.delta", { ...place, content_index: 0, delta, logprobs: [] });
      yield event("response.output_text.done", { ...place, content_index: 0, text, logprobs: [] });
      yield event("response.content_part.done", { ...place, content_index: 0, part: { ...part, text } });
    }
    yield event("response.output_item.done", { output_index, item });
  }
  yield event("response.completed", { response: whole });
}

function itemsOf(parts: AnswerParts) {
  const text = parts.text === undefined ? [] : [{ type: "output_text", text: parts.text, annotations: [] }];
  const message = {
    ...{ id: `msg_${parts.id}`, type: "message" as const, role: "assistant", status: "completed" },
    content: text,
  };
  const calls = askedTools(parts).map(({ id, name, arguments: given }, at) => ({
    ...{ id: `fc_${parts.id}_${at}`, type: "function_call" as const, status: "completed", call_id: id, name },
    arguments: given,
  }));
  return [...(text.length > 0 ? [message] : []), ...calls];
}
