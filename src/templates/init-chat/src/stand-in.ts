import type { ModelReply, ModelServerRequest } from "agent-control-service/testing";

/** Answers in place of a model. */
export function standIn({ messages, last }: ModelServerRequest): ModelReply {
  const asked = messages.filter(({ role }) => role === "user").length;
  return `(stand-in) Your message ${asked} was: ${last.text}`;
}
