import { createHash } from "node:crypto";
import { validateHeaderValue } from "node:http";
import { ServiceError } from "../../core/base/errors.ts";
import type { DeliveryTarget, Events } from "../../core/delivery/events.ts";
import { type Fetch, postJson } from "../../core/delivery/post-json.ts";
import type { Participant } from "../../core/entities/change.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { AskingCase } from "../../core/runs/questions/open-questions.ts";
import type { Store, TableSpec, Transaction } from "../../core/store/store.ts";
import { stateOf } from "./states.ts";
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

export interface A2aPush {
  readonly id: string;
  readonly job_id: string;
  readonly config: PushConfig;
}

declare module "../../core/store/store.ts" {
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

  /** Stores a receiver; one of the same id is replaced. */
  async set(config: PushConfig): Promise<PushConfig> {
    assertUsable(config);
    const row = { id: idOf(config.taskId, config.id), job_id: config.taskId, config };
    await this.#store.transaction(async (tx) => {
      const before = await tx.get("A2aPush", row.id);
      if (!before && (await tx.ids("A2aPush", "job_id", row.job_id)).length >= MOST_CONFIGS)
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

  async list(taskId: string): Promise<PushConfig[]> {
    const { items } = await this.#store
      .table("A2aPush")
      .list({ where: { job_id: taskId }, limit: MOST_CONFIGS, sort: "id" });
    return items.map(({ config }) => config);
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

/** Stores what is sent together with the change that it is about. */
export function pushChanges(events: Events): Participant {
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
      if (previous.final_delivery !== null || item.final_delivery === null) return;
      const configs = await tx.ids("A2aPush", "job_id", item.job_id);
      const job = configs.length > 0 ? await tx.get("Job", item.job_id) : undefined;
      if (!job) return;
      for (const artifact of deliveryOf(item))
        await post(configs, job.id, toArtifactUpdate(job, artifact), tx);
      return;
    }
    if (change.kind !== "job:changed") return;
    const { job, previous } = change;
    const isSame = stateOf(job, job.open_questions) === stateOf(previous, previous.open_questions);
    if (isSame && job.open_questions === previous.open_questions) return;
    const configs = await tx.ids("A2aPush", "job_id", job.id);
    if (configs.length === 0) return;
    for (const artifact of resultOf(job)) await post(configs, job.id, toArtifactUpdate(job, artifact), tx);
    await post(configs, job.id, toStatusUpdate(job, await questionsOf(job, tx)), tx);
  };
}

/** The open questions of a job inside a transaction, oldest first. */
async function questionsOf(job: StoredJob, tx: Transaction): Promise<AskingCase[]> {
  if (job.open_questions === 0) return [];
  const ids = await tx.ids("Case", "job_id", job.id);
  const items = await Promise.all(ids.map((id) => tx.get("Case", id)));
  return items.filter(
    (item): item is AskingCase => item !== undefined && item.status === "awaiting" && item.question !== null,
  );
}

/** Sends what is in the outbox. */
export function createPushTarget(store: Store, fetch: Fetch): DeliveryTarget {
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
      // The client no longer wants it.
      if (!row) return;
      await postJson(fetch, row.config.url, {
        headers: { ...headers, "content-type": "application/a2a+json", ...headersOf(row.config) },
        body: JSON.stringify(event),
        signal,
      });
    },
  };
}

function idOf(taskId: string, id: string): string {
  return `p${createHash("sha256").update(`${taskId}\n${id}`).digest("base64url")}`;
}
