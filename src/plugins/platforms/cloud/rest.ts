import { Readable } from "node:stream";
import { messageOf } from "../../../core/base/error-text.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { CloudError } from "./cloud-error.ts";

export interface RestRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly url: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  readonly body?: unknown;
  /**
   * A body in pieces, instead of `body`: created for each attempt, and without the time limit of other calls.
   */
  readonly stream?: (() => AsyncIterable<Uint8Array>) | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A response that is not a success. */
export interface RestRefusal {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

/** Milliseconds after which a call counts as unanswered. */
const UNANSWERED = 60_000;

/** Sends one request and reads its JSON; an error response is converted by `toError`. No retries here. */
export async function sendRest<T>(
  tools: Pick<DeployTools, "fetch" | "signal">,
  request: RestRequest,
  toError: (refusal: RestRefusal) => Error,
): Promise<T> {
  const { method, url, query, stream, body } = request;
  let refusal: RestRefusal;
  try {
    const response = await tools.fetch(withQuery(url, query), {
      method,
      headers: {
        accept: "application/json",
        ...(body !== undefined && { "content-type": "application/json" }),
        ...request.headers,
      },
      ...(stream && { body: Readable.from(stream(), { objectMode: false }), duplex: "half" }),
      ...(!stream && { signal: AbortSignal.timeout(UNANSWERED) }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    } as RequestInit);
    const { ok, status } = response;
    const answer = readJson(await response.text());
    if (ok) return answer as T;
    refusal = { status, body: answer, headers: response.headers };
  } catch (error) {
    tools.signal.throwIfAborted();
    const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new CloudError(`${method} ${hostOf(url)} got no response (${messageOf(inner)})`, {
      status: 0,
      code: "NO_ANSWER",
      cause: error,
    });
  }
  throw toError(refusal);
}

/** What a text of JSON says; a text that is not JSON, such as the page of a proxy, as it is. */
function readJson(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

function withQuery(url: string, query: RestRequest["query"] = {}): string {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) given.set(key, String(value));
  return given.size === 0 ? url : `${url}${url.includes("?") ? "&" : "?"}${given}`;
}
