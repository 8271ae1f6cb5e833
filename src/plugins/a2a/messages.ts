import { createHash } from "node:crypto";
import { ServiceError } from "../../core/base/errors.ts";
import { inOrder } from "../../core/base/in-order.ts";
import type { Participant } from "../../core/entities/change.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { keyOf } from "../../core/models/question-key.ts";
import { openQuestions } from "../../core/runs/questions/open-questions.ts";
import type { TableSpec } from "../../core/store/store.ts";
import type { A2aParts } from "./parts.ts";

/** A message that answered a question: a repetition of it answers the same one, never the next. */
export interface A2aMessage {
  readonly id: string;
  readonly job_id: string;
  /** Key of the question. */
  readonly question: string;
  /** Hash of its parts; version 0.1.0 stored none. */
  readonly content?: string;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    A2aMessage: A2aMessage;
  }
}

export const A2A_MESSAGE_TABLE: TableSpec<A2aMessage> = {
  name: "A2aMessage",
  version: 1,
  entity: true,
  index: ({ job_id }) => ({ job_id }),
  facets: ["job_id"],
  sorted: [],
};

/** Identifies a message of a client among all of them. */
export function idOfMessage(agent: string, messageId: string): string {
  return createHash("sha256").update(`${agent}\n${messageId}`).digest("base64url");
}

/** The question that a message answers: the one that it names, or the only one that was open when it came first. */
export async function questionOf(
  { cases, store }: A2aParts,
  job: StoredJob,
  message: {
    readonly messageId: string;
    readonly named: string | undefined;
    readonly given: readonly object[];
    /** The error for a message to a task that has ended. */
    readonly hasEnded: () => Error;
  },
): Promise<string> {
  const { messageId, named } = message;
  const content = createHash("sha256")
    .update(JSON.stringify(inOrder(message.given)))
    .digest("base64url");
  const id = `m${idOfMessage(job.agent_name, `${job.id}\n${messageId}`)}`;
  const table = store.table("A2aMessage");
  const before = await table.get(id);
  if (before) return questionOfSame(before, content);
  if (isTerminal(job.status)) throw message.hasEnded();
  const open = (await openQuestions(cases, job)).map(keyOf);
  const question = named ?? (open.length === 1 ? open[0] : undefined);
  if (question === undefined) {
    throw new ServiceError(
      "invalid_request",
      open.length === 0 ? "The task asks nothing" : "The task asks several questions",
      {
        detail:
          open.length === 0 ? "Wait until it does." : `Name one in metadata.question: ${open.join(", ")}.`,
      },
    );
  }
  return store.transaction(async (tx) => {
    const row = await tx.get("A2aMessage", id);
    if (row) return questionOfSame(row, content);
    await tx.insert("A2aMessage", { id, job_id: job.id, question, content });
    return question;
  });
}

function questionOfSame(before: A2aMessage, content: string): string {
  if (before.content === undefined || before.content === content) return before.question;
  throw new ServiceError(
    "invalid_request",
    "A message with this messageId already exists with different parts",
    {
      status: 409,
      detail: "Send it with a new messageId, or repeat the original message unchanged.",
    },
  );
}

/** Removes what is kept of the messages of a job together with it. */
export const forgetMessages: Participant = async (change, tx) => {
  if (change.kind !== "job:erased") return;
  for (const id of await tx.ids("A2aMessage", "job_id", change.job.id)) await tx.remove("A2aMessage", id);
};
