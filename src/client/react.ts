import { useMemo, useState, useSyncExternalStore } from "react";
import { chatMessages, isAnswering, type SentMessage, type ShownMessage } from "./chat-messages.ts";
import { type JobState, JobView, UNKNOWN } from "./job-view.ts";
import { newId } from "./new-id.ts";
import type { AnswerOptions, RemoteJob } from "./remote-job.ts";
import type { Uploaded } from "./upload.ts";

export type { ShownMessage } from "./chat-messages.ts";
export type { LiveOutput } from "./job-view.ts";

/** A job that a component shows, and what it may do with it. */
export interface UsedJob<Result = unknown> extends JobState<Result> {
  /** Its result; `undefined` until it has completed. */
  readonly result: Result | undefined;
  /** Answers the open question of a case. Rejects with `ClientError`. */
  answer(caseId: string, answer: Readonly<Record<string, unknown>>, options?: AnswerOptions): Promise<void>;
  /** Sends a file for an answer: the field takes what it resolves with. Rejects with `ClientError`. */
  readonly upload: RemoteJob["upload"];
  /** Asks it to stop. Rejects with `ClientError`. */
  stop(): Promise<void>;
}

/**
 * Follows a job while the component is mounted: its state, its record, its cases and their questions, and what its
 * steps emit. Without a job, as long as there is none, it is `loading`.
 *
 * @example
 * const { status, questions, answer, result } = useJob(service.job<"payer">(id));
 */
export function useJob<Result>(job: RemoteJob<Result> | null | undefined): UsedJob<Result> {
  const [held, hold] = useState(job);
  // Each render may make another object for the same job.
  if (held !== job && !(held && job?.isSame(held))) hold(job);
  const view = useMemo(() => (held ? new JobView(held) : undefined), [held]);
  const state: JobState<Result> = useSyncExternalStore(
    view?.watch ?? watchNothing,
    view?.state ?? unknown,
    unknown,
  );
  const isDone = state.job?.status === "completed";
  return {
    ...state,
    result: isDone ? (state.job?.result as Result) : undefined,
    answer: view?.answer ?? noJob,
    upload: (file, options) => (held ? held.upload(file, options) : noJob()),
    stop: view?.stop ?? noJob,
  };
}

/** A thread of a chat that a component shows. */
export interface UsedChat extends UsedJob<unknown> {
  /** Oldest first, with the answer that is being written. */
  readonly messages: readonly ShownMessage[];
  /** Whether an answer is being written or about to begin, or waits for a question to be answered. */
  readonly isAnswering: boolean;
  /**
   * Sends a message; it is shown immediately. While a question is shown, it is the answer, in a person's words: one that is
   * not accepted is followed by the reason, and has no files. Rejects with `ClientError`, and then removes it.
   */
  send(content: string, options?: { readonly files?: readonly Uploaded[] }): Promise<void>;
}

/**
 * Follows a job of a chat agent: its messages, and its answers while they are written.
 *
 * @example
 * const { messages, send } = useChat(service.job(threadId));
 */
export function useChat(job: RemoteJob<unknown> | null | undefined): UsedChat {
  const used = useJob(job);
  const [sent, setSent] = useState<readonly SentMessage[]>([]);
  const messages = chatMessages(used, sent);
  const send: UsedChat["send"] = async (content, { files = [] } = {}) => {
    if (!job) return noJob();
    const id = newId("message");
    const asking = used.questions.at(-1);
    if (asking && files.length > 0) throw new TypeError("The answer to a question has no files");
    setSent((before) => [...before, { id, content, ...(asking && { turn: asking.id }) }]);
    try {
      if (!asking) return void (await job.send(content, { id, ...(files.length > 0 && { files }) }));
      const answer = await job.reply(asking, content, { id });
      setSent((before) => before.map((one) => (one.id === id ? { ...one, answer } : one)));
    } catch (error) {
      setSent((before) => before.filter((one) => one.id !== id));
      throw error;
    }
  };
  return { ...used, messages, isAnswering: isAnswering(used, messages), send };
}

const unknown = () => UNKNOWN;
const watchNothing = () => () => {};
const noJob = () => Promise.reject(new Error("There is no job yet"));
