import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import { createSecureContext, type SecureContextOptions } from "node:tls";

const WITHOUT_BODY = [204, 205, 304];

/** `fetch` that trusts one certificate and no other: that of `svc dev --https`, which no authority has signed. */
export function createPinnedFetch(cert: string): typeof globalThis.fetch {
  const trust: SecureContextOptions & { allowPartialTrustChain: boolean } = {
    ca: cert,
    // The certificate's own issuer is not kept.
    allowPartialTrustChain: true,
  };
  // Of its own: the shared one would use connections again that were made with other trust.
  const agent = new Agent({ keepAlive: true });
  const secureContext = createSecureContext(trust);
  return (input, { method = "GET", headers, body, signal } = {}) =>
    new Promise((resolve, reject) => {
      const options = {
        method,
        headers: Object.fromEntries(new Headers(headers)),
        secureContext,
        agent,
        ...(signal && { signal }),
      };
      const sent = request(String(input), options, (response) => {
        const { statusCode: status = 0, statusMessage: statusText = "", rawHeaders } = response;
        const pairs = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name, rawHeaders[at + 1]!]] : []));
        const hasBody = !WITHOUT_BODY.includes(status);
        const stream = hasBody ? (Readable.toWeb(response) as ReadableStream<Uint8Array>) : null;
        resolve(new Response(stream, { status, statusText, headers: pairs as [string, string][] }));
      });
      sent.on("error", reject);
      sent.end(body ?? undefined);
    });
}
