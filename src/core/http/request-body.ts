import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { assertBodySize, type H3Event } from "h3";
import { ServiceError } from "../base/errors.ts";
import { tooLarge } from "./failure.ts";

/** Media types whose text is read here: JSON and the fields of a form. */
const TEXT_TYPE = /^application\/(?:(?:[\w.+-]+\+)?json|x-www-form-urlencoded)\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]+)/i;
const UTF8 = new Set(["utf-8", "utf8", "us-ascii"]);

/**
 * Receives a request's body before its handler runs: at most `limit` bytes, not compressed, and valid UTF-8
 * if it is JSON or a form. A handler that reads the request itself gets these bytes. `undefined` if there is
 * no body.
 */
export function receiveBody(event: H3Event, limit: number): Promise<Buffer> | undefined {
  const { headers } = event.req;
  const length = headers.get("content-length");
  const node = event.runtime?.node?.req as (IncomingMessage & { rawBody?: Buffer }) | undefined;
  const isThere = node ? length !== null || headers.has("transfer-encoding") : event.req.body !== null;
  if (!isThere || length === "0") return undefined;

  assertNotCompressed(headers.get("content-encoding"));
  const type = headers.get("content-type") ?? "";
  // Most clients send exactly this.
  const isJson = type === "application/json";
  const isText = isJson || TEXT_TYPE.test(type);
  if (isText && !isJson) assertCharset(type);
  if (length !== null && Number(length) > limit) throw tooLarge(limit);
  return (node ? collect(node, limit) : collectInProcess(event, limit)).then((bytes) => {
    if (isText && !isUtf8(bytes)) throw notUtf8("body");
    if (node) node.rawBody = bytes;
    return bytes;
  });
}

/** The error for text that is not UTF-8. */
export function notUtf8(part: string): ServiceError {
  return new ServiceError("invalid_request", `The request's ${part} is not valid UTF-8`, {
    status: 400,
    detail: "Encode text as UTF-8.",
  });
}

function assertNotCompressed(coding: string | null): void {
  if (coding === null || /^\s*(identity\s*)?$/i.test(coding)) return;
  throw new ServiceError("unsupported_media_type", "The request body is compressed", {
    detail: "Send it as it is, without Content-Encoding.",
    headers: { "accept-encoding": "identity" },
  });
}

function assertCharset(type: string): void {
  const charset = CHARSET.exec(type)?.[1];
  if (charset === undefined || UTF8.has(charset.toLowerCase())) return;
  throw new ServiceError("unsupported_media_type", "The request body must be UTF-8", {
    detail: "Encode it as UTF-8 and omit charset.",
  });
}

function collect(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let isWhole = false;
    const add = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      reject(tooLarge(limit));
      // The rest is discarded, so that the client gets to read the response.
      request.off("data", add).resume();
    };
    const end = (): void => {
      isWhole = true;
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    };
    const fail = (cause?: Error): void => {
      if (!isWhole) reject(endedEarly(cause));
    };
    if (request.destroyed || request.readableEnded) fail();
    // They stay, as the request does not outlive its response by much: what happens first settles it.
    else request.on("data", add).on("end", end).on("error", fail).on("close", fail);
  });
}

async function collectInProcess(event: H3Event, limit: number): Promise<Buffer> {
  assertBodySize(event, limit);
  try {
    const bytes = Buffer.from(await event.req.arrayBuffer());
    const { url, method, headers, signal } = event.req;
    const received = new Request(url, { method, headers, signal, body: bytes });
    (event as { req: Request }).req = received;
    return bytes;
  } catch (cause) {
    if ((cause as { status?: number }).status === 413) throw tooLarge(limit);
    throw endedEarly(cause);
  }
}

function endedEarly(cause: unknown): ServiceError {
  return new ServiceError("invalid_request", "The request body ended early", { status: 400, cause });
}
