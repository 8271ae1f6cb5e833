import { createHash } from "node:crypto";
import { validateHeaderValue } from "node:http";
import type { Caller } from "../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../core/base/errors.ts";
import type { DeliveryTarget, Events } from "../../core/delivery/events.ts";
import { type Fetch, postJson } from "../../core/delivery/post-json.ts";
import type { Participant } from "../../core/entities/change.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { AskingCase } from "../../core/runs/questions/open-questions.ts";
import type { Store, TableSpec, Transaction } from "../../core/store/store.ts";
import { stateOf } from "./states.ts";
import { questionsOf, toTurnJob } from "./turn-task.ts";
import { deliveryOf, type Json, resultOf, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

/** Name of the target in the outbox. */
const TARGET = "a2a";
const MOST_CONFIGS = 10;
/** Characters of a header that servers accept. */
const LONGEST_HEADER = 4000;

/** Where changes of a task are sent. */
export interface PushConfig {
  readonly id: string;
  readonly taskId: string;
  readonly url: string;
  readonly token: string;
  readonly authentication: { readonly scheme: string; readonly credentials: string } | undefined;
}

/** A task, and its job. */
export interface TaskPlace {
  readonly taskId: string;
  readonly jobId: string;
}

export interface A2aPush {
  readonly id: string;
  readonly job_id: string;
  readonly config: PushConfig;
  /** The named key, or the person, that has set it, by the id of the access. */
  readonly access?: string;
  /** The identity provider that vouches for the person, by its issuer. */
  readonly proven?: string;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    A2aPush: A2aPush;
  }
}

export const A2A_PUSH_TABLE: TableSpec<A2aPush> = {
  name: "A2aPush",
  version: 1,
  entity: true,
  index: ({ job_id }) => ({ job_id }),
  facets: ["job_id"],
  sorted: [],
};

/** The receivers of tasks, as clients set them. */
export class PushConfigs {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Stores a receiver; one of the same id is replaced. It gets nothing more once who has set it is removed. */
  async set(config: PushConfig, jobId: string, { access, proven }: Caller): Promise<PushConfig> {
    assertUsable(config);
    const row: A2aPush = {
      ...{ id: idOf(config.taskId, config.id), job_id: jobId, config },
      ...(access !== undefined && { access }),
      ...(proven !== undefined && { proven }),
    };
    await this.#store.transaction(async (tx) => {
      const before = await tx.get("A2aPush", row.id);
      if (!before && (await receiversOf(tx, { taskId: config.taskId, jobId })).length >= MOST_CONFIGS)
        throw new ServiceError(
          "invalid_request",
          `A task has at most ${MOST_CONFIGS} push notification configs`,
        );
      if (before) await tx.change("A2aPush", row.id, () => row);
      else await tx.insert("A2aPush", row);
    });
    return config;
  }

  async find(taskId: string, id: string): Promise<PushConfig | undefined> {
    return (await this.#store.table("A2aPush").get(idOf(taskId, id)))?.config;
  }

  async list({ taskId, jobId }: TaskPlace): Promise<PushConfig[]> {
    const { items } = await this.#store
      .table("A2aPush")
      .list({ where: { job_id: jobId }, limit: Number.POSITIVE_INFINITY, sort: "id" });
    return items.flatMap(({ config }) => (config.taskId === taskId ? [config] : []));
  }

  async remove(taskId: string, id: string): Promise<void> {
    await this.#store.transaction((tx) => tx.remove("A2aPush", idOf(taskId, id)));
  }
}

/** A message in the outbox. */
interface Message {
  /** Id of the receiver's row. */
  readonly config: string;
  readonly event: unknown;
}

/** The headers that a receiver asked for. */
function headersOf({
  token,
  authentication,
}: Pick<PushConfig, "token" | "authentication">): Record<string, string> {
  return {
    ...(token !== "" && { "x-a2a-notification-token": token }),
    ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}` }),
  };
}

/** Throws `invalid_request` where nothing could be sent to a receiver. */
export function assertUsable(config: Pick<PushConfig, "url" | "token" | "authentication">): void {
  if (!/^https?:\/\//.test(config.url) || !URL.canParse(config.url))
    throw new ServiceError("invalid_request", "The url of a push notification must be an http or https URL");
  for (const [name, value] of Object.entries(headersOf(config))) assertSendable(name, value);
}

/** Throws `invalid_request` for what no request can have in a header; it is not repeated, as it may be a secret. */
function assertSendable(name: string, value: string): void {
  const field = name === "authorization" ? "authentication" : "token";
  const what = `The ${field} of a push notification`;
  if (value.length > LONGEST_HEADER)
    throw new ServiceError("invalid_request", `${what} has more than ${LONGEST_HEADER} characters`);
  try {
    validateHeaderValue(name, value);
  } catch {
    throw new ServiceError("invalid_request", `${what} has characters that no header can have`, {
      detail: "It may have visible ASCII characters and spaces, and no line breaks.",
    });
  }
}

/** The ids of the receivers of a task. A thread has those of all its turns. */
async function receiversOf(tx: Transaction, { taskId, jobId }: TaskPlace): Promise<string[]> {
  const ids = await tx.ids("A2aPush", "job_id", jobId);
  const rows = await Promise.all(ids.map((id) => tx.get("A2aPush", id)));
  return rows.flatMap((row) => (row?.config.taskId === taskId ? [row.id] : []));
}

/** Stores what is sent together with the change that it is about. */
export function pushChanges(events: Events, base: () => string): Participant {
  const post = async (configs: readonly string[], stream: string, event: Json, tx: Transaction) => {
    for (const config of configs)
      await events.post(TARGET, { stream, type: "a2a.status", body: { config, event } }, tx);
  };
  return async (change, tx) => {
    if (change.kind === "job:erased") {
      for (const id of await tx.ids("A2aPush", "job_id", change.job.id)) await tx.remove("A2aPush", id);
    }
    if (change.kind === "case:changed") {
      const { case: item, previous } = change;
      const jobId = item.job_id;
      const isDelivered = previous.final_delivery === null && item.final_delivery !== null;
      const isMoved =
        item.status !== previous.status || item.question?.asked_at !== previous.question?.asked_at;
      if (!isDelivered && !isMoved) return;
      if ((await tx.ids("A2aPush", "job_id", jobId)).length === 0) return;
      const job = await tx.get("Job", jobId);
      if (!job) return;
      if (isDelivered) {
        const configs = await receiversOf(tx, { taskId: jobId, jobId });
        for (const artifact of deliveryOf(item, base()))
          await post(configs, jobId, toArtifactUpdate(job, artifact), tx);
      }
      const turn = toTurnJob({ job, item });
      const configs = await receiversOf(tx, { taskId: turn.id, jobId });
      for (const artifact of resultOf(turn, base()))
        await post(configs, jobId, toArtifactUpdate(turn, artifact), tx);
      if (isMoved) await post(configs, jobId, toStatusUpdate(turn, questionsOf(item)), tx);
      return;
    }
    if (change.kind !== "job:changed") return;
    const { job, previous } = change;
    const isSame = stateOf(job, job.open_questions) === stateOf(previous, previous.open_questions);
    if (isSame && job.open_questions === previous.open_questions) return;
    const configs = await receiversOf(tx, { taskId: job.id, jobId: job.id });
    if (configs.length === 0) return;
    for (const artifact of resultOf(job, base()))
      await post(configs, job.id, toArtifactUpdate(job, artifact), tx);
    await post(configs, job.id, toStatusUpdate(job, await openIn(job, tx)), tx);
  };
}

/** The open questions of a job inside a transaction, oldest first. */
async function openIn(job: StoredJob, tx: Transaction): Promise<AskingCase[]> {
  if (job.open_questions === 0) return [];
  const ids = await tx.ids("Case", "job_id", job.id);
  const items = await Promise.all(ids.map((id) => tx.get("Case", id)));
  return items.filter(
    (item): item is AskingCase => item !== undefined && item.status === "awaiting" && item.question !== null,
  );
}

/** Sends what is in the outbox. */
export function createPushTarget(store: Store, fetch: Fetch, assertIn: (by: Caller) => void): DeliveryTarget {
  return {
    name: TARGET,
    receivers: {
      of: (body) => (body as Message).config,
      ofStream: (stream, tx) => tx.ids("A2aPush", "job_id", stream),
      partyOf: async (id) => {
        const row = await store.table("A2aPush").get(id);
        return row ? new URL(row.config.url).origin : "";
      },
    },
    async send({ body, headers, signal }) {
      const { config, event } = body as Message;
      const row = await store.table("A2aPush").get(config);
      // The client no longer wants it, or may no longer see it.
      if (!row || !isStillIn(row, assertIn)) return;
      await postJson(fetch, row.config.url, {
        headers: { ...headers, "content-type": "application/a2a+json", ...headersOf(row.config) },
        body: JSON.stringify(event),
        signal,
      });
    },
  };
}

/** Whether who has set a receiver is still valid. */
function isStillIn({ access, proven }: A2aPush, assertIn: (by: Caller) => void): boolean {
  if (access === undefined) return true;
  try {
    assertIn({ kind: "key", access, ...(proven !== undefined && { proven }) });
    return true;
  } catch (error) {
    if (isServiceError(error) && error.type === "forbidden") return false;
    throw error;
  }
}

function idOf(taskId: string, id: string): string {
  return `p${createHash("sha256").update(`${taskId}\n${id}`).digest("base64url")}`;
}
