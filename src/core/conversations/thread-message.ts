import { createHash } from "node:crypto";
import type { ChatFields, ChatMessage } from "../agents/define-chat.ts";
import type { GivenFile } from "../agents/read-values.ts";
import { type Caller, nameOf } from "../audit/caller.ts";
import type { StoredJob } from "../models/job.ts";
import type { KeyedRequest } from "../models/keyed-request.ts";
import type { TurnEvent, TurnOf } from "./follow-turn.ts";
import type { Reader } from "./shown-questions.ts";

export interface ThreadStart {
  /** Id of its job. @default a new one */
  readonly id?: string | undefined;
  /** Who starts it. @default "api" */
  readonly startedBy?: string | undefined;
  /** Starts only one thread under the same key. */
  readonly idempotencyKey?: string | undefined;
  /** Jobs whose files its fields may name as they are. */
  readonly filesOf?: readonly string[] | undefined;
}

/** Where to find the turn of a message, and when that came, ISO 8601, where that is recorded. */
export type SentTurn = Omit<TurnOf, "signal"> & {
  readonly at?: string;
  /** Who reads it, where a text of theirs may answer what it asks. */
  readonly reader?: Reader;
};

/** What happens in a turn; a question with the reference under which its reader was shown it. */
export type ShownEvent = TurnEvent & { readonly reference?: string };

/** A message as its sender has it: its files are not of a job yet. */
export type SentChatMessage = Omit<ChatMessage, "files"> & { readonly files?: readonly GivenFile[] };

/** A message of somebody who does not know whether a thread exists, or asks something. */
export interface ThreadMessage {
  readonly content: string;
  readonly files?: readonly GivenFile[] | undefined;
  /** Jobs whose files it and its history may name as they are: the sender sees them. */
  readonly filesOf?: readonly string[];
  /** The conversation before it: counts where the thread is started, and shows which question the sender has seen. */
  readonly history?: readonly SentChatMessage[];
  /** Under the same key, one message has an effect, and only once; another one is refused with 409. */
  readonly key?: string | undefined;
  /** Whether the key was made for this request: its sender has no key to send it again with. @default false */
  readonly isKeyMade?: boolean;
  /** Whether the sender may have sent it before. */
  readonly isRepeated?: boolean;
  /** Key of the question that the sender was shown last, "" for none, where its client knows. */
  readonly seen?: string;
  /** Refuses it where nothing is asked. @default false: it is a message then */
  readonly onlyAnswers?: boolean;
  /** Of the job of a thread that it starts. */
  readonly context?: { readonly started_by?: string; readonly mission_id?: string };
  readonly by: Caller;
  /** The kind of client, such as a protocol: a question that is shown by one is unknown to the others. */
  readonly via: string;
}

/** An answer to a question that its key names. */
export interface GivenAnswer {
  readonly key: string;
  /** Without values, the question is shown again. */
  readonly values?: unknown;
  /** Instead of values, for a question of yes or no. */
  readonly approved?: boolean | undefined;
  /** A remark; the field `comment` has it where the question has one. */
  readonly message?: string | undefined;
  readonly by: Caller;
  /** The kind of client. */
  readonly via: string;
}

/** What a repeated message must have again: its text, and its files, if it has any. */
export function saidIn({ content, files = [] }: Pick<ThreadMessage, "content" | "files">): unknown {
  return files.length === 0 ? content : { content, files };
}

/** The fields of a thread that begins with a message: files of messages before it are one list, which they name by numbers. */
export function toFields({ content, files = [], history = [] }: ThreadMessage): ChatFields {
  const historyFiles: GivenFile[] = [];
  const before = history.map(({ files: own = [], ...message }) => {
    if (own.length === 0) return message;
    const from = historyFiles.length;
    historyFiles.push(...own);
    return { ...message, files: own.map((_, at) => from + at) };
  });
  return {
    ...{ message: content, history: before },
    ...(files.length > 0 && { files: [...files] }),
    ...(historyFiles.length > 0 && { history_files: historyFiles }),
  };
}

export function senderOf({ via, by }: Pick<ThreadMessage, "via" | "by">): string {
  return `${via}\n${nameOf(by)}`;
}

/** A key is one of its thread: in another thread, it names another message. */
export function keyOfStart(threadId: string, key: string): string {
  return `chat-${createHash("sha256").update(`${threadId}\n${key}`).digest("base64url")}`;
}

export function firstTurn({ id, created_at }: StoredJob): SentTurn {
  return { jobId: id, after: 0, at: created_at };
}

export function turnOf(jobId: string, messageId: string, { at, after, answered }: KeyedRequest): SentTurn {
  return { jobId, after, at, ...(answered ? { answered } : { messageId }) };
}
