import type { ModelReply, ModelServerRequest } from "agent-control-service/testing";

/** Answers in place of a model. */
export function standIn({ last }: ModelServerRequest): ModelReply {
  return `(stand-in) ${last.text}`;
}
