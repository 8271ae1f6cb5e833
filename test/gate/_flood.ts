import { connect } from "node:net";

const MEGABYTE = Buffer.alloc(1024 * 1024, "x");
const CHUNK = Buffer.concat([
  Buffer.from(`${MEGABYTE.length.toString(16)}\r\n`),
  MEGABYTE,
  Buffer.from("\r\n"),
]);

export interface Flood {
  readonly method: string;
  readonly path: string;
  readonly type: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly megabytes: number;
  /** Called after each megabyte. */
  readonly look?: () => void;
}

/**
 * Sends a body of unsaid length as a hostile client does: on and on, whatever is answered, until all is sent or the
 * service has cut it off. Resolves with the status of the answer, 0 where there was none.
 */
export function flood(
  port: number,
  { method, path, type, headers = {}, megabytes, look = () => {} }: Flood,
): Promise<{ status: number; sent: number }> {
  const head = { host: "service", "content-type": type, "transfer-encoding": "chunked", ...headers };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  return new Promise((resolve) => {
    let text = "";
    let sent = 0;
    const socket = connect(port, "127.0.0.1");
    const finish = (): void => {
      socket.destroy();
      resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0), sent });
    };
    const push = (): void => {
      while (sent < megabytes && !socket.destroyed) {
        sent++;
        look();
        if (!socket.write(CHUNK)) return;
      }
      if (sent >= megabytes) socket.end("0\r\n\r\n");
    };
    socket.on("connect", () => {
      socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
      push();
    });
    socket.on("drain", push).setEncoding("latin1");
    socket.on("data", (part: string) => {
      if (text.length < 1000) text += part;
    });
    socket.on("error", () => {}).on("close", finish);
  });
}
