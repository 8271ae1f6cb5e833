import type { IncomingMessage } from "node:http";
import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { HttpEvent } from "./route.ts";

/** Whose uploads a caller may use, if not everybody's: its own. */
export function uploaderOf({ kind, sight, access, job, session }: Caller): string | null {
  if (kind === "token" || kind === "link") return `job.${job}`;
  return sight === undefined ? null : (access ?? `session.${session}`);
}

/** Rejects a body that is compressed. */
export function assertPlain({ req }: HttpEvent): void {
  const coding = req.headers.get("content-encoding");
  if (coding === null || /^\s*(identity\s*)?$/i.test(coding)) return;
  throw new ServiceError("unsupported_media_type", "The request body is compressed", {
    detail: "Send it as it is, without Content-Encoding.",
  });
}

/** The body of a request while it arrives, not held as a whole. Rejects where it ends early. */
export async function* incoming(event: HttpEvent): AsyncGenerator<Uint8Array, void> {
  assertPlain(event);
  const node = event.runtime?.node?.req as IncomingMessage | undefined;
  if (!node) {
    if (event.req.body) yield* event.req.body as unknown as AsyncIterable<Uint8Array>;
    return;
  }
  try {
    yield* node as AsyncIterable<Uint8Array>;
  } catch (cause) {
    throw new ServiceError("invalid_request", "The request body ended early", { status: 400, cause });
  }
}
