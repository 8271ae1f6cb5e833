import { createHash, randomUUID } from "node:crypto";
import type { ChatFields, ChatMessage } from "../../agents/define-chat.ts";
import { messageEvent } from "../../agents/message-event.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import type { Actor } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";
import { findKeptRequest } from "../../entities/keyed-requests.ts";
import type { StoredJob } from "../../models/job.ts";
import { agreement } from "../../models/question.ts";
import type { AskingCase } from "../../runs/questions/open-questions.ts";
import type { Runner } from "../../runs/runner.ts";
import type { Store } from "../../store/store.ts";
import type { JobFeed } from "../job-feed.ts";
import type { TurnOf } from "./follow-turn.ts";
import { readReply } from "./question-text.ts";

/** What threads need. */
export interface ThreadsParts {
  readonly agents: AgentRegistry;
  readonly runner: Runner;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly feed: JobFeed;
  readonly store: Store;
}

/** Where to find the turn of a message, and when that came, ISO 8601, where that is recorded. */
export type SentTurn = Omit<TurnOf, "signal"> & { readonly at?: string };

export interface ThreadStart {
  /** Id of its job. @default a new one */
  readonly id?: string | undefined;
  /** Who starts it. @default "api" */
  readonly startedBy?: string | undefined;
  /** Starts only one thread under the same key. */
  readonly idempotencyKey?: string | undefined;
}

/** A message of somebody who does not know whether a thread exists, or asks something. */
export interface ThreadMessage {
  readonly content: string;
  /** The conversation before it: counts where the thread is started. */
  readonly history?: readonly ChatMessage[];
  /** Under the same key, one message has an effect, and only once; another one is refused with 409. */
  readonly key?: string | undefined;
  /** Whether the sender may have sent it before. */
  readonly isRepeated?: boolean;
  readonly by?: Actor;
}

/** Threads of agents that `defineChat` has made: each is a job, whose messages are events. */
export class Threads {
  readonly #parts: ThreadsParts;

  constructor(parts: ThreadsParts) {
    this.#parts = parts;
  }

  /** Slugs of the agents that people can chat with. */
  agents(): string[] {
    return this.#parts.agents.list().flatMap(({ slug, definition }) => (definition.chats ? [slug] : []));
  }

  /** The slug of an agent that people can chat with, or `agent_not_found`. */
  agent(slug: string): string {
    const found = this.#parts.agents.find(slug);
    if (found?.definition.chats) return found.slug;
    throw new ServiceError("agent_not_found", `There is no chat agent "${slug}"`, {
      detail: `Chat agents: ${this.agents().join(", ") || "none"}. Define one with defineChat.`,
    });
  }

  /** The thread with this id, if it exists; another job is refused. */
  async find(id: string): Promise<StoredJob | undefined> {
    const job = await this.#parts.jobs.find(id);
    if (!job || this.#parts.agents.find(job.agent_name)?.definition.chats) return job;
    throw new ServiceError("invalid_transition", `Job "${id}" is not a thread of a chat`, {
      detail: "Its agent must be defined with defineChat.",
    });
  }

  /** Starts a thread with a message. */
  async start(slug: string, fields: ChatFields, options: ThreadStart = {}): Promise<SentTurn> {
    return firstTurn(await this.#start(slug, fields, options));
  }

  /** Sends a message to the thread of this id: starts it, answers its open question, or adds the message. */
  async send(slug: string, threadId: string, message: ThreadMessage): Promise<SentTurn> {
    const { content, history = [], key } = message;
    const thread = await this.find(threadId);
    if (thread && thread.agent_name !== slug) {
      throw new ServiceError(
        "invalid_transition",
        `Thread "${threadId}" is one of agent "${thread.agent_name}"`,
        { detail: "Use another thread_id." },
      );
    }
    const keys = key === undefined ? [] : [keyOfStart(threadId, key), key];
    const startKey = keys.find((one) => one === thread?.idempotency_key) ?? keys[0];
    if (!thread || (startKey !== undefined && startKey === thread.idempotency_key)) {
      const fields = { message: content, history: [...history], once: false };
      const job = await this.#start(slug, fields, { id: threadId, idempotencyKey: startKey });
      // Another request with the same content may have been the first.
      if (startKey === undefined || job.idempotency_key === startKey) return firstTurn(job);
    }
    return this.#reply(threadId, message);
  }

  /** Adds a message to a thread. The same message id again adds nothing. */
  async say(jobId: string, content: string, id?: string): Promise<SentTurn> {
    if (!(await this.find(jobId))) {
      throw new ServiceError("job_not_found", `There is no thread "${jobId}"`, {
        detail: "Start a new one.",
      });
    }
    const { runner, feed } = this.#parts;
    const after = await feed.last(jobId);
    if (id === undefined) {
      const messageId = randomUUID();
      await runner.say(jobId, { content, id: messageId });
      return { jobId, after, messageId };
    }
    await runner.say(jobId, { content, id, once: { key: id, content, after } });
    return (await this.#sent(jobId, content, id))!;
  }

  async #openQuestion(jobId: string): Promise<AskingCase | undefined> {
    const where = { job_id: jobId, status: "awaiting" };
    const { items } = await this.#parts.cases.list({ where, sort: "-created_at", limit: 1 });
    return items.find((item): item is AskingCase => item.question !== null);
  }

  /** Answers the open question of a thread with a message, if it has one; otherwise adds the message. */
  async #reply(jobId: string, { content, key, isRepeated, by }: ThreadMessage): Promise<SentTurn> {
    const before = key === undefined ? undefined : await this.#sent(jobId, content, key);
    if (before) return before;
    const item = await this.#openQuestion(jobId);
    if (!item) return this.say(jobId, content, key);
    if (isRepeated && key === undefined) throw mayBeRepeated(jobId);
    const { question } = item;
    const answer = readReply(content, question);
    const after = await this.#parts.feed.last(jobId);
    const answered = await this.#parts.runner.answer(
      jobId,
      item.id,
      {
        ...{ answer, message: null, question_id: question.id, asked_at: question.asked_at },
        ...(key !== undefined && { once: { key, content, after } }),
      },
      by,
    );
    if (key !== undefined) return (await this.#sent(jobId, content, key))!;
    const agreed = answered.question?.id === question.id ? agreement(answered.question) : undefined;
    const place = { case_id: item.id, question_id: question.id };
    return { jobId, after, answered: { ...place, ...(agreed !== undefined && { agreed }) } };
  }

  /** What a message with this id has done, by its record: whatever has happened since. */
  async #sent(jobId: string, content: string, id: string): Promise<SentTurn | undefined> {
    const { store } = this.#parts;
    const kept = await findKeptRequest(store, jobId, { key: id, content });
    if (kept) {
      const { at, after, answered } = kept;
      return { jobId, after, at, ...(answered ? { answered } : { messageId: id }) };
    }
    // Of version 0.1.0, messages have no other record.
    const event = await store.table("ReceivedEvent").peek(`${messageEvent(jobId)}/${id}`);
    return event ? this.say(jobId, content, id) : undefined;
  }

  #start(
    slug: string,
    fields: ChatFields,
    { id, startedBy, idempotencyKey }: ThreadStart,
  ): Promise<StoredJob> {
    return this.#parts.runner.start(this.agent(slug), {
      job_context: {
        ...(id !== undefined && { job_id: id }),
        ...(startedBy !== undefined && { started_by: startedBy }),
      },
      job_fields: fields,
      ...(idempotencyKey !== undefined && { idempotencyKey }),
    });
  }
}

function firstTurn({ id, created_at }: StoredJob): SentTurn {
  return { jobId: id, after: 0, at: created_at };
}

/** A key is one of its thread: in another thread, it names another message. */
function keyOfStart(threadId: string, key: string): string {
  return `chat-${createHash("sha256").update(`${threadId}\n${key}`).digest("base64url")}`;
}

function mayBeRepeated(jobId: string): ServiceError {
  return new ServiceError(
    "invalid_transition",
    `Thread "${jobId}" asks a question, and this may be an earlier message`,
    {
      detail:
        "The client has sent this message again. Send the answer as a new request, and give each message an Idempotency-Key header: then a repeated one gets the response of the first.",
      // Repeated once more, it would be the same.
      headers: { "x-should-retry": "false" },
    },
  );
}
