import { lookup } from "node:dns";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { messageOf } from "../base/error-text.ts";
import { DeliveryError } from "./events.ts";
import type { Fetch } from "./post-json.ts";
import { isPublicAddress } from "./public-addresses.ts";

/** Only the status and one line of text of a response are read. */
const LARGEST_ANSWER = 64 * 1024;

/** Statuses with which a `Response` cannot have a body. */
const WITHOUT_BODY = new Set([204, 205, 304]);

export type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;

/**
 * A `fetch` for untrusted URLs. The address that a name resolves to is checked, and exactly the checked
 * address is connected to: a name that changes in between gains nothing. Redirects are not followed.
 */
export function createGuardedFetch(allowPrivate: boolean, resolve: Resolve = resolveName): Fetch {
  return async (target, init) => {
    const url = new URL(target);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const addresses = isIP(host) ? [{ address: host, family: isIP(host) }] : await resolve(host);
    const refused = allowPrivate ? undefined : addresses.find(({ address }) => !isPublicAddress(address));
    if (refused || addresses.length === 0) {
      throw new DeliveryError(
        `"${host}" is not a public address: to send there, set the option allowPrivate`,
        {
          permanent: true,
        },
      );
    }
    return send(url, init, (_host, options, callback) => {
      if (options.all) callback(null, addresses);
      else callback(null, addresses[0]!.address, addresses[0]!.family);
    });
  };
}

function send(url: URL, init: RequestInit, pinned: LookupFunction): Promise<Response> {
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const outgoing = orNever(() =>
      request(
        url,
        {
          method: init.method,
          headers: {
            ...(init.headers as Record<string, string>),
            "content-length": Buffer.byteLength(init.body as string),
          },
          lookup: pinned,
          signal: init.signal ?? undefined,
        },
        (incoming) => {
          const chunks: Buffer[] = [];
          let size = 0;
          const finish = (): void => {
            const headers = new Headers();
            const retryAfter = incoming.headers["retry-after"];
            if (retryAfter) headers.set("retry-after", retryAfter);
            const status = incoming.statusCode ?? 0;
            if (status < 200 || status > 599) {
              reject(new DeliveryError(`responded with ${status}`, { status }));
              return;
            }
            const body = WITHOUT_BODY.has(status) ? null : Buffer.concat(chunks);
            resolve(new Response(body, { status, headers }));
          };
          incoming.on("data", (chunk: Buffer) => {
            size += chunk.length;
            if (size <= LARGEST_ANSWER) chunks.push(chunk);
            else {
              finish();
              incoming.destroy();
            }
          });
          incoming.on("end", finish);
          incoming.on("error", reject);
        },
      ),
    );
    outgoing.on("error", reject);
    outgoing.end(init.body);
  });
}

/** What cannot even be made into a request, such as a header with a line break, is not tried again. */
function orNever<T>(make: () => T): T {
  try {
    return make();
  } catch (cause) {
    const reason = messageOf(cause);
    throw new DeliveryError(`cannot be sent: ${reason}`, { permanent: true, cause });
  }
}

function resolveName(host: string): Promise<{ address: string; family: number }[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });
}
