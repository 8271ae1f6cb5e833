import type { Duplex } from "node:stream";
import { ServiceError } from "../base/errors.ts";
import { SECURITY_HEADERS } from "./answer.ts";

/** Responds with an ErrorResponse to what Node cannot parse as a request, or what arrived too slowly. */
export function answerBroken(error: NodeJS.ErrnoException, socket: Duplex): void {
  // If another response has already started, this one would become part of it.
  const { _httpMessage: underWay } = socket as { _httpMessage?: { headersSent: boolean } | null };
  if (error.code === "ECONNRESET" || !socket.writable || underWay?.headersSent) {
    socket.destroy();
    return;
  }
  const { status, reason, message } = CAUSES[error.code ?? ""] ?? MALFORMED;
  const failure = new ServiceError("invalid_request", message, { status });
  const body = JSON.stringify(failure.toResponse(new Date()));
  const headers = [
    ["content-type", "application/json; charset=utf-8"],
    ["content-length", String(Buffer.byteLength(body))],
    ["connection", "close"],
    ...SECURITY_HEADERS,
  ].map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${reason}\r\n${headers.join("")}\r\n${body}`, () => socket.destroy());
}

const MALFORMED = { status: 400, reason: "Bad Request", message: "The request is not valid HTTP" };
const CAUSES: Readonly<Record<string, typeof MALFORMED>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    reason: "Request Header Fields Too Large",
    message: "The request headers are too large",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    reason: "Request Timeout",
    message: "The request was not received in time",
  },
};
