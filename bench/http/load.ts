import { connect, type Socket } from "node:net";

/**
 * Sends one request repeatedly on some persistent connections for a while; resolves with the number of
 * responses.
 */
export async function load(request: {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly milliseconds: number;
}): Promise<number> {
  const { port, path, connections, milliseconds } = request;
  const lines = Object.entries({ host: "127.0.0.1", ...request.headers }).map(
    ([key, value]) => `${key}: ${value}`,
  );
  const text = `GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
  const until = Date.now() + milliseconds;
  const counts = await Promise.all(
    Array.from({ length: connections }, () => ask(connect(port, "127.0.0.1"), text, until)),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function ask(socket: Socket, text: string, until: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let answered = 0;
    let received = "";
    socket.setNoDelay(true);
    socket.on("error", reject);
    socket.on("connect", () => socket.write(text));
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      const length = answerLength(received);
      if (length === undefined || received.length < length) return;
      if (!received.startsWith("HTTP/1.1 200")) return reject(new Error(received.slice(0, 300)));
      received = received.slice(length);
      answered++;
      if (Date.now() < until) return socket.write(text);
      socket.destroy();
      resolve(answered);
    });
  });
}

function answerLength(text: string): number | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, end + 2))?.[1];
  return length === undefined ? undefined : end + 4 + Number(length);
}
