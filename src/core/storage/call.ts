import { setTimeout as sleep } from "node:timers/promises";
import { delays } from "../base/backoff.ts";
import { innermostMessage } from "../base/error-text.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";
import { readRetryAfter } from "../base/retry-after.ts";
import type { Expiring, Renewed } from "./renewed.ts";
import { isPassing, StorageFailure, type StorageFailureReason } from "./storage-failure.ts";

/** The network and time, for tests. */
export interface CallTools {
  /** @default globalThis.fetch */
  readonly fetch?: typeof fetch | undefined;
  /** @default () => new Date() */
  readonly now?: (() => Date) | undefined;
  /** @default Math.random */
  readonly random?: (() => number) | undefined;
}

export interface CallLimits {
  /** Milliseconds until a request without a body counts as unanswered; each MiB of a body adds four seconds. @default 10000 */
  readonly timeout?: number | undefined;
  /** Milliseconds over which a request is repeated where that can help. @default 20000 */
  readonly patience?: number | undefined;
}

/** The options that all drivers of clouds have. */
export const SHARED_NAMES: NamesOf<CallTools & CallLimits> = {
  ...{ fetch: true, now: true, random: true, timeout: true, patience: true },
};

export interface Call {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
}

export interface Response {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** What a response means that is not what was asked for. */
export interface Verdict {
  readonly reason: StorageFailureReason;
  /** What the provider says, in few words. */
  readonly says: string;
  /** What to do. @default what the reason suggests */
  readonly detail?: string | undefined;
  /** The credentials may be out of date: once, the request is repeated with new ones. */
  readonly renew?: boolean;
  /** The request is repeated. @default for reasons that pass by themselves */
  readonly again?: boolean;
}

export interface Conversation<C extends Expiring> {
  readonly options: CallTools & CallLimits;
  /** What is called, for messages: `The bucket "x"`. */
  readonly name: string;
  readonly credentials: Renewed<C>;
  /** The request with credentials as they are now; called for each attempt. */
  prepare(credentials: C): Call;
  /** What is wrong with a response; nothing if it is an answer to the request. */
  judge(response: Response, credentials: C): Verdict | undefined;
}

const PAUSES = delays({ first: 100, most: 5000, jitter: 0.5 });
const MIB = 1024 * 1024;

/**
 * Makes a request until it is answered: a provider that is busy or unreachable is asked again, with pauses that double, have
 * jitter, and are as long as the provider wants.
 *
 * @throws {StorageFailure}
 */
export async function converse<C extends Expiring>(conversation: Conversation<C>): Promise<Response> {
  const { options, name, credentials } = conversation;
  const { now = () => new Date(), random = Math.random, patience = 20_000 } = options;
  const until = performance.now() + patience;
  let renewed = false;
  for (let attempt = 0; ; attempt++) {
    const { verdict, response, cause } = await attemptOnce(conversation);
    if (verdict === undefined) return response!;
    if (verdict.renew && !renewed) {
      renewed = true;
      credentials.discard();
      continue;
    }
    const again = verdict.again ?? isPassing(verdict.reason);
    const pause = pauseOf(response, { attempt, random, now: now() });
    if (!again || performance.now() + pause > until) {
      throw new StorageFailure(`${name} ${WORDS[verdict.reason]} (${verdict.says})`, {
        reason: verdict.reason,
        detail: verdict.detail ?? ADVICE[verdict.reason],
        cause,
      });
    }
    await sleep(pause);
  }
}

interface Attempt {
  readonly verdict?: Verdict | undefined;
  readonly response?: Response;
  readonly cause?: unknown;
}

async function attemptOnce<C extends Expiring>(conversation: Conversation<C>): Promise<Attempt> {
  const credentials = await conversation.credentials.get();
  const call = conversation.prepare(credentials);
  try {
    const response = await send(call, conversation.options);
    return { response, verdict: conversation.judge(response, credentials) };
  } catch (cause) {
    if (cause instanceof StorageFailure) throw cause;
    return { cause, verdict: { reason: "unavailable", says: innermostMessage(cause) } };
  }
}

/** One request, its response read whole: fetch rejects where fewer bytes arrive than announced. */
export async function send(
  { method, url, headers, body }: Call,
  { fetch: ask = fetch, timeout: longest = 10_000 }: Pick<CallTools & CallLimits, "fetch" | "timeout">,
): Promise<Response> {
  const timeout = longest + (4000 * (body?.length ?? 0)) / MIB;
  // For a response of any length, the time counts from its first bytes again.
  const watch = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const expect = () => {
    clearTimeout(timer);
    timer = setTimeout(() => watch.abort(new Error("it did not respond in time")), timeout);
  };
  expect();
  try {
    const response = await ask(url, {
      method,
      // Compression on the way would hide the size.
      headers: { "accept-encoding": "identity", ...headers },
      redirect: "manual",
      signal: watch.signal,
      ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
    });
    const chunks: Uint8Array[] = [];
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      expect();
      chunks.push(chunk);
    }
    const read = Buffer.concat(chunks);
    const announced = response.headers.get("content-length");
    if (method !== "HEAD" && announced !== null && Number(announced) !== read.length)
      throw new Error("the response was cut off");
    return { status: response.status, headers: response.headers, body: read };
  } finally {
    clearTimeout(timer);
  }
}

interface PauseFacts {
  readonly attempt: number;
  readonly random: () => number;
  readonly now: Date;
}

function pauseOf(response: Response | undefined, { attempt, random, now }: PauseFacts): number {
  return Math.max(PAUSES(attempt, random), readRetryAfter(response?.headers.get("retry-after"), now) ?? 0);
}

const WORDS: Readonly<Record<StorageFailureReason, string>> = {
  throttled: "accepts no more requests at the moment",
  unavailable: "does not respond as it should",
  denied: "refused the request",
  full: "is full",
  gone: "does not exist",
  clock: "refused the request because of the clock of this machine",
  damaged: "returned something else than was written",
};

const ADVICE: Readonly<Record<StorageFailureReason, string>> = {
  throttled: "Retry later. If this happens often, fewer services should use the bucket.",
  unavailable: "Retry later. Check the network and the provider's status page if this continues.",
  denied: "Check the credentials, and which rights they have on the bucket: read, write, list and delete.",
  full: "Make room in the bucket, or raise its quota; the service then continues by itself.",
  gone: "Check the name and the region, or create the bucket; if it was deleted, restore a backup.",
  clock: "Set the clock of this machine, for example with NTP.",
  damaged: "Restore a backup if this continues.",
};
