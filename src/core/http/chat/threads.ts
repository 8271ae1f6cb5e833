import { randomUUID } from "node:crypto";
import { type ChatFields, messageEvent } from "../../agents/define-chat.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import type { Actor } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredCase } from "../../models/case.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Runner } from "../../runs/runner.ts";
import type { JobFeed } from "../job-feed.ts";
import type { TurnOf } from "./follow-turn.ts";
import { readReply } from "./question-text.ts";

interface ThreadsParts {
  readonly agents: AgentRegistry;
  readonly runner: Runner;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly feed: JobFeed;
}

/** Where to find the turn of a message. */
export type SentTurn = Omit<TurnOf, "signal">;

export interface ThreadStart {
  /** Id of its job. @default a new one */
  readonly id?: string | undefined;
  /** Who starts it. @default "api" */
  readonly startedBy?: string | undefined;
  /** Starts only one thread under the same key. */
  readonly idempotencyKey?: string | undefined;
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

  /** Starts a thread with a message. A failed answer does not end it. */
  async start(
    slug: string,
    fields: ChatFields,
    { id, startedBy, idempotencyKey }: ThreadStart = {},
  ): Promise<SentTurn> {
    const job = await this.#parts.runner.start(this.agent(slug), {
      job_context: {
        ...(id !== undefined && { job_id: id }),
        ...(startedBy !== undefined && { started_by: startedBy }),
        job_instructions: { ...NO_LIMITS, stop_on_error: fields.once ?? false },
      },
      job_fields: fields,
      ...(idempotencyKey !== undefined && { idempotencyKey }),
    });
    return { jobId: job.id, after: 0 };
  }

  /** Adds a message to a thread. The same message id again adds nothing. */
  async say(jobId: string, content: string, id: string = randomUUID()): Promise<SentTurn> {
    const job = await this.find(jobId);
    if (!job) {
      throw new ServiceError("job_not_found", `There is no thread "${jobId}"`, {
        detail: "Start a new one.",
      });
    }
    if (isTerminal(job.status)) {
      throw new ServiceError("invalid_transition", `Thread "${jobId}" has ended: it is ${job.status}`, {
        detail: job.error ?? "Start a new one.",
      });
    }
    const after = await this.#parts.feed.last(jobId);
    await this.#parts.runner.receive(messageEvent(jobId), { id, data: { content } });
    return { jobId, after, messageId: id };
  }

  /** Answers the open question of a thread with a message, if it has one; otherwise adds the message. */
  async reply(jobId: string, content: string, { id, by }: { id?: string; by?: Actor }): Promise<SentTurn> {
    const item = await this.openQuestion(jobId);
    if (!item) return this.say(jobId, content, id);
    const answer = readReply(content, item.question!);
    const after = await this.#parts.feed.last(jobId);
    await this.#parts.runner.answer(jobId, item.id, { answer, message: null }, by);
    return { jobId, after, caseId: item.id };
  }

  async openQuestion(jobId: string): Promise<StoredCase | undefined> {
    const where = { job_id: jobId, status: "awaiting" };
    const { items } = await this.#parts.cases.list({ where, sort: "-created_at", limit: 1 });
    return items.find(({ question }) => question);
  }
}

const NO_LIMITS = {
  max_cases: null,
  max_duration: null,
  max_cost: null,
  stop_on_warning: false,
  job_start_time: null,
};
