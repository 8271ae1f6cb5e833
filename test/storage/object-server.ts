import { type Answer, type Received, serveHttp } from "../platforms/http-server.ts";

/** An object of a bucket. */
export interface StoredObject {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly generation: number;
}

/** A request as tests see it. */
export interface Seen {
  /** From 1. */
  readonly number: number;
  readonly method: string;
  readonly kind: "read" | "write" | "create" | "remove" | "list";
  /** Name of the object, or prefix of a list. */
  readonly name: string;
  readonly bytes: number;
}

/** Takes part in a request: answers it otherwise, delays it, or cuts the connection by resolving with nothing. */
export type Fault = (
  seen: Seen,
  proceed: (changed?: Partial<Received>) => Promise<Answer>,
) => Promise<Answer | undefined> | undefined;

/** What an emulator of a provider's object storage has, and what tests can do to it. */
export class Buckets {
  readonly objects = new Map<string, Map<string, StoredObject>>();
  readonly seen: Seen[] = [];
  /** What a client did that the provider's contract does not allow. */
  readonly violations: string[] = [];
  fault: Fault | undefined;
  /** Entries of a page. */
  pageSize = 1000;
  /** Kinds of requests that the caller has no right to. */
  denied = new Set<Seen["kind"]>();
  full = false;
  #generation = 1_700_000_000_000_000;

  constructor(names: readonly string[]) {
    for (const name of names) this.objects.set(name, new Map());
  }

  put(bucket: string, name: string, object: Omit<StoredObject, "generation">): number {
    this.#generation += 1;
    this.objects.get(bucket)!.set(name, { ...object, generation: this.#generation });
    return this.#generation;
  }

  /** Names in the order of their bytes, as providers list them. */
  names(bucket: string, prefix: string): string[] {
    return [...this.objects.get(bucket)!.keys()]
      .filter((name) => name.startsWith(prefix))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }
}

export interface ObjectServer {
  readonly url: string;
  readonly buckets: Buckets;
  close(): Promise<void>;
}

/** Serves an emulator, whose requests are seen and disturbed by tests. */
export async function serveObjects(
  buckets: Buckets,
  handle: (request: Received, host: string) => Answer,
  describe: (request: Received) => Omit<Seen, "number" | "method" | "bytes">,
): Promise<ObjectServer> {
  const server = await serveHttp(async (request) => {
    const { method, raw, headers } = request;
    const seen = { number: buckets.seen.length + 1, method, bytes: raw.length, ...describe(request) };
    buckets.seen.push(seen);
    const proceed = async (changed: Partial<Received> = {}) =>
      handle({ ...request, ...changed }, headers.host ?? "");
    const disturbed = buckets.fault?.(seen, proceed);
    return disturbed === undefined ? proceed() : disturbed;
  });
  return { url: server.url, buckets, close: () => server.close() };
}

/** An answer whose connection is cut halfway. */
export function cutOff(answer: Answer): Answer {
  const whole = Buffer.isBuffer(answer.body)
    ? answer.body
    : Buffer.from(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(whole.subarray(0, whole.length / 2)),
    pull: (controller) => controller.error(new Error("cut")),
  });
  return { ...answer, body, headers: { ...answer.headers, "content-length": String(whole.length) } };
}
