import { messageOf } from "../base/error-text.ts";
import { readRetryAfter } from "../base/retry-after.ts";
import { DeliveryError } from "./events.ts";

/** The longest time that a receiver's Retry-After can delay deliveries. */
const LONGEST_PAUSE = 3_600_000;
/** Statuses below 500 that another attempt may change: a new key, a raised limit, a freed lock. */
const PASSING = new Set([401, 403, 407, 408, 421, 423, 425, 429]);
/** The part of an error response that an operator needs to see. */
const EXCERPT = 300;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Posts JSON; resolves on a 2xx response and rejects with a `DeliveryError` that says whether to retry. */
export async function postJson(
  fetch: Fetch,
  url: string,
  request: { readonly headers: Record<string, string>; readonly body: string; readonly signal: AbortSignal },
): Promise<void> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", ...request.headers },
      body: request.body,
      signal: request.signal,
      // A redirect would send the key to a host that nobody configured.
      redirect: "manual",
    });
  } catch (cause) {
    if (cause instanceof DeliveryError) throw cause;
    throw new DeliveryError(reasonOf(cause, request.signal), { cause });
  }
  if (response.ok) return drain(response);
  const text = await readExcerpt(response);
  const { status } = response;
  throw new DeliveryError(`responded with ${status}${text === "" ? "" : `: ${text}`}`, {
    status,
    permanent: status >= 400 && status < 500 && !PASSING.has(status),
    retryAfter: pauseOf(response.headers),
  });
}

function reasonOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return "did not respond in time";
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? messageOf(error);
}

/** A small response is read so that the connection can be reused; a large one is aborted. */
async function drain(response: Response): Promise<void> {
  const length = Number(response.headers.get("content-length") ?? Number.NaN);
  try {
    if (length <= 65_536) await response.arrayBuffer();
    else await response.body?.cancel();
  } catch {
    // The receiver has confirmed the message.
  }
}

async function readExcerpt(response: Response): Promise<string> {
  try {
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await reader?.cancel();
    const text = new TextDecoder().decode(first?.value ?? new Uint8Array());
    return text.replace(/\s+/g, " ").trim().slice(0, EXCERPT);
  } catch {
    return "";
  }
}

function pauseOf(headers: Headers): number | undefined {
  const wait = readRetryAfter(headers.get("retry-after"), new Date());
  return wait === undefined ? undefined : Math.min(wait, LONGEST_PAUSE);
}
