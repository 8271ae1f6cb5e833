import type { Caller } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { describeQuestion } from "../../conversations/read-reply.ts";
import type { ShownEvent } from "../../conversations/thread-message.ts";
import type { HttpEvent } from "../route.ts";

/** Who sends a message at OpenAI's routes: a question that one of them has shown is known at the other. */
export function senderOf(event: HttpEvent, by: Caller) {
  // OpenAI's clients count their retries here. They make them by themselves, without a key.
  const isRepeated = Number(event.req.headers.get("x-stainless-retry-count") ?? 0) > 0;
  return { by, via: "openai", isRepeated };
}

/** A question as text; a client without a thread finds it by its reference. */
export function describeShown(
  { question, reference }: Extract<ShownEvent, { type: "question" }>,
  isAlone: boolean,
): string {
  return describeQuestion(question, isAlone ? reference : undefined);
}

/** The error for an answer that failed. */
export function failure(message: string): ServiceError {
  // Their clients repeat a request after errors from 500 on: the message would be answered, and paid, again.
  return new ServiceError("internal_error", message, {
    status: 422,
    detail: "The job of the thread has the details.",
    headers: { "x-should-retry": "false" },
  });
}
