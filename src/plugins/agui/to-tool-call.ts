import type { ToolCall } from "../../core/conversations/follow-turn.ts";
import type { Sent } from "./sent.ts";

/** A call of a tool that the agent has made, as the events that show it. */
export function* toToolCall({ id: toolCallId, name, input, result, error }: ToolCall): Generator<Sent> {
  yield { type: "TOOL_CALL_START", toolCallId, toolCallName: name };
  yield { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify(input) };
  yield { type: "TOOL_CALL_END", toolCallId };
  const content = error ?? (typeof result === "string" ? result : JSON.stringify(result));
  yield { type: "TOOL_CALL_RESULT", messageId: `${toolCallId}-result`, toolCallId, content };
}
