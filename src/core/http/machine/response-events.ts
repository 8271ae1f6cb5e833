import type { ShownEvent } from "../../conversations/thread-message.ts";
import { describeShown } from "./openai-answer.ts";
import {
  type AboutResponse,
  STARTED,
  TurnReader,
  toMessage,
  toPart,
  toResponse,
  toToolItem,
} from "./response-object.ts";

/** A turn as the events of OpenAI's responses, each as a text of a stream. */
export async function* toResponseEvents(
  about: AboutResponse,
  events: AsyncIterable<ShownEvent>,
): AsyncGenerator<string, void> {
  let number = 0;
  const line = (type: string, data: object): string => {
    const event = { type, sequence_number: number++, ...data };
    return `event: ${type}\ndata: ${JSON.stringify(event)}\n\n`;
  };
  const place = { item_id: toMessage(about).id, output_index: 0, content_index: 0 };
  const reader = new TurnReader(about);
  let isOpen = false;
  let tools = 0;
  let isSaid = false;

  yield line("response.created", { response: toResponse(about, STARTED) });
  yield line("response.in_progress", { response: toResponse(about, STARTED) });
  for await (const event of events) {
    const state = reader.add(event);
    if (event.type === "text" || event.type === "notice") {
      yield open() + delta(event.text);
    } else if (event.type === "tool") {
      const item = toToolItem(about, event.tool);
      const at = { output_index: ++tools };
      const added = { ...item, output: null, error: null, status: "in_progress" };
      yield open() +
        line("response.output_item.added", { ...at, item: added }) +
        line(`response.mcp_call.${item.status}`, { ...at, item_id: item.id }) +
        line("response.output_item.done", { ...at, item });
    } else if (event.type === "question") {
      yield open() + delta(`${isSaid ? "\n\n" : ""}${describeShown(event, about.isAlone)}`);
    }
    if (state.status === "failed") {
      const error = { type: "server_error", code: "server_error", message: state.error, param: null };
      // Some clients raise only this one; others only the response.
      yield line("error", { error }) + line("response.failed", { response: toResponse(about, state) });
      return;
    }
    if (state.status === "in_progress") continue;
    const part = toPart(about, state);
    const annotated = part.annotations.map((annotation, annotation_index) =>
      line("response.output_text.annotation.added", { ...place, annotation_index, annotation }),
    );
    yield open() +
      annotated.join("") +
      line("response.output_text.done", { ...place, text: state.text, logprobs: [] }) +
      line("response.content_part.done", { ...place, part }) +
      line("response.output_item.done", { output_index: 0, item: toMessage(about, state) }) +
      line("response.completed", { response: toResponse(about, state) });
    return;
  }

  function open(): string {
    if (isOpen) return "";
    isOpen = true;
    return (
      line("response.output_item.added", { output_index: 0, item: toMessage(about) }) +
      line("response.content_part.added", { ...place, part: toPart(about, STARTED) })
    );
  }

  function delta(text: string): string {
    isSaid = true;
    return line("response.output_text.delta", { ...place, delta: text, logprobs: [] });
  }
}
