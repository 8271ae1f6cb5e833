import type { IncomingMessage, ServerResponse } from "node:http";

/** Bytes that are thrown away behind an answer: a client that sends all before it reads gets to read the answer. */
const MOST_THROWN_AWAY = 16 * 1024 * 1024;
/** Milliseconds between two looks. */
const LOOK = 20;

/** Cuts off a client that goes on sending a body which was answered before it had come. */
export function cutOffUnread(request: IncomingMessage, response: ServerResponse): void {
  const { "transfer-encoding": coding, "content-length": length } = request.headers;
  if (coding === undefined && !(Number(length) > MOST_THROWN_AWAY)) return;
  response.once("finish", () => {
    if (request.complete) return;
    const { socket } = request;
    const most = socket.bytesRead + MOST_THROWN_AWAY;
    const looking = setInterval(() => {
      if (socket.bytesRead > most && !request.complete) socket.destroy();
      if (socket.destroyed || request.complete) clearInterval(looking);
    }, LOOK).unref();
  });
}
