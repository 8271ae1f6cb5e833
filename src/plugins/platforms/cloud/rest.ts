import { Readable } from "node:stream";
import { createFetch } from "ofetch";
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
  const { method, url, query, stream, headers } = request;
  const body = stream ? Readable.from(stream(), { objectMode: false }) : request.body;
  const send = createFetch({ fetch: tools.fetch });
  const response = await send
    .raw<T>(url, {
      method,
      retry: false,
      ignoreResponseError: true,
      ...(stream ? {} : { timeout: UNANSWERED }),
      ...(query ? { query: withoutBlanks(query) } : {}),
      ...(body === undefined ? {} : { body: body as Record<string, unknown> }),
      ...(headers ? { headers } : {}),
    })
    .catch((error: unknown) => {
      tools.signal.throwIfAborted();
      const { cause } = error as { cause?: unknown };
      const inner = cause instanceof Error ? (cause.cause instanceof Error ? cause.cause : cause) : error;
      const text = inner instanceof Error ? inner.message : String(inner);
      throw new CloudError(`${method} ${hostOf(url)} got no response (${text})`, {
        status: 0,
        code: "NO_ANSWER",
        cause: error,
      });
    });
  if (response.ok) return response._data as T;
  throw toError({ status: response.status, body: response._data, headers: response.headers });
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

function withoutBlanks(query: NonNullable<RestRequest["query"]>): Record<string, string> {
  const given: Record<string, string> = {};
  for (const [key, value] of Object.entries(query)) if (value !== undefined) given[key] = String(value);
  return given;
}
