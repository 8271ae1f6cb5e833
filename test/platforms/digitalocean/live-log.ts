import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

/** A log that is pushed over a web socket. */
export interface LiveLog extends AsyncDisposable {
  readonly url: string;
  /** What came back for its pings. */
  readonly pongs: string[];
}

/** Pushes pieces of a log as App Platform does, each as JSON in a message of its own; the first one in two frames. */
export async function serveLog(
  pieces: readonly string[],
  { refuse = false }: { readonly refuse?: boolean } = {},
): Promise<LiveLog> {
  const pongs: string[] = [];
  const sockets = new Set<Duplex>();
  const server = createServer((_, response) => response.writeHead(403).end());
  server.on("upgrade", (request, socket: Duplex) => {
    sockets.add(socket);
    if (refuse) return socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.write(frame(0x89, Buffer.from("are you there")));
    // The rest follows the answer to the ping, so that it is seen to be answered.
    socket.once("data", (bytes: Buffer) => {
      pongs.push(unmasked(bytes));
      const [first = "", ...others] = pieces.map((data) => JSON.stringify({ data }));
      socket.write(frame(0x01, Buffer.from(first.slice(0, 5))));
      socket.write(frame(0x80, Buffer.from(first.slice(5))));
      for (const message of others) socket.write(frame(0x81, Buffer.from(message)));
      socket.end(frame(0x88, Buffer.alloc(0)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/logs?token=one`,
    pongs,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  if (length < 126) return Buffer.concat([Buffer.from([first, length]), payload]);
  const head = Buffer.alloc(length < 65_536 ? 4 : 10);
  head[0] = first;
  head[1] = length < 65_536 ? 126 : 127;
  if (length < 65_536) head.writeUInt16BE(length, 2);
  else head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

function unmasked(bytes: Buffer): string {
  const mask = bytes.subarray(2, 6);
  return Buffer.from(bytes.subarray(6).map((byte, index) => byte ^ (mask[index % 4] ?? 0))).toString();
}
