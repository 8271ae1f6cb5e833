import { ClientError } from "../../client/client-error.ts";
import { backoff, isAway, pause } from "../../client/outage.ts";
import { isLoopback } from "../../core/base/loopback.ts";

/** How a command waits for a service that does not answer, as it does while it restarts. */
export interface Patience {
  /** Says to the person what is waited for. */
  readonly note: (line: string) => void;
  /** Seconds in which a request that may be repeated must succeed. @default 60 */
  readonly seconds?: number;
  /** Seconds until the person is notified. @default 5 */
  readonly quiet?: number;
  /** Seconds of the first try; a later one has more. A connection to a process that has stopped may never break. @default 10 */
  readonly first?: number;
}

/** Seconds until the answer to a request that is sent once begins: a backup is made before its first byte is sent. */
export const ONCE = 300;

/** Failures of a connection to a machine that exists. */
const BROKEN = [
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
];

/** Sends a request, and repeats it where that is safe until the service answers. `send` gets the seconds that it may take. */
export async function patiently<T>(
  send: (timeout: number) => Promise<T>,
  request: { readonly url: string; readonly repeatable: boolean },
  { note, seconds = 60, quiet = 5, first = 10 }: Patience,
): Promise<T> {
  const { url, repeatable } = request;
  const end = Date.now() + seconds * 1000;
  const how = repeatable ? `trying for ${seconds} s` : `waiting for up to ${ONCE} s`;
  const timer = setTimeout(() => note(`The service at ${url} does not answer yet; ${how} …`), quiet * 1000);
  try {
    for (let attempt = 0, late = 0; ; attempt++) {
      const left = (end - Date.now()) / 1000;
      try {
        return await send(repeatable ? Math.min(first * 2 ** late, left) : ONCE);
      } catch (error) {
        if (!repeatable || !(error instanceof ClientError) || !mayPass(error, url)) throw error;
        if (causeOf(error) === "AbortError") late++;
        const wait = Math.max((error.retryAfter ?? 0) * 1000, backoff(attempt));
        if (Date.now() + wait >= end) throw error;
        await pause(wait, undefined);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Whether a request was not sent: nobody was there. */
export function isUnsent(error: ClientError): boolean {
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"].includes(causeOf(error));
}

/** Whether the service may answer soon. Where this machine refuses the connection, no service runs. */
function mayPass(error: ClientError, url: string): boolean {
  if (error.status !== 0) return isAway(error);
  const cause = causeOf(error);
  if (cause === "ECONNREFUSED" && isLoopback(new URL(url).hostname)) return false;
  return cause === "AbortError" || cause.startsWith("UND_ERR_") || BROKEN.includes(cause);
}

/** What broke a connection, as the platform's `fetch` says it. */
function causeOf({ cause }: ClientError): string {
  const { code, name } = ((cause as Error)?.cause ?? cause ?? {}) as { code?: unknown; name?: unknown };
  return String(typeof code === "string" ? code : name);
}
