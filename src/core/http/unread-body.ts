import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Bytes that are discarded after a response: a client that sends everything before it reads gets to read the
 * response.
 */
const MOST_THROWN_AWAY = 16 * 1024 * 1024;
/** Milliseconds between checks. */
const LOOK = 20;

/** Disconnects a client that keeps sending a body after the response. */
export function cutOffUnread(request: IncomingMessage, response: ServerResponse): void {
  const { "transfer-encoding": coding, "content-length": length } = request.headers;
  if (coding === undefined && !(Number(length) > MOST_THROWN_AWAY)) return;
  response.once("finish", () => {
    // A request that was destroyed has left its connection.
    const socket: Socket | null = request.socket;
    if (request.complete || socket === null) return;
    const most = socket.bytesRead + MOST_THROWN_AWAY;
    const looking = setInterval(() => {
      if (socket.bytesRead > most && !request.complete) socket.destroy();
      if (socket.destroyed || request.complete) clearInterval(looking);
    }, LOOK).unref();
  });
}
