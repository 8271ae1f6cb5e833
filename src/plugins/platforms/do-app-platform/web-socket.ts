import { createHash, randomBytes } from "node:crypto";
import { request as overHttp } from "node:http";
import { request as overHttps } from "node:https";
import type { Duplex } from "node:stream";
import { DeployError } from "../../../deploy/errors.ts";
import { unreachable } from "../../../deploy/network.ts";
import { proxyFor, TunnelAgent } from "../../../deploy/proxy.ts";
import type { DeployTools } from "../../../deploy/tools.ts";

/** The GUID of RFC 6455 that every server includes in its response hash. */
const ACCEPTED = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
/** Longer messages are not lines of a log. */
const LONGEST = 16 * 1024 * 1024;

interface Frame {
  readonly opcode: number;
  readonly isLast: boolean;
  readonly payload: Buffer;
  /** Where the next frame starts. */
  readonly end: number;
}

/**
 * Text messages that a server pushes, until it closes or the signal fires. It only receives; Node has no
 * built-in WebSocket before version 22.
 */
export async function* webSocketMessages(
  url: string,
  tools: Pick<DeployTools, "signal" | "env">,
): AsyncGenerator<string> {
  const { signal } = tools;
  const socket = await upgrade(url, tools);
  const stop = () => socket.destroy();
  signal.addEventListener("abort", stop, { once: true });
  let arrived = Buffer.alloc(0);
  let parts: Buffer[] = [];
  try {
    for await (const chunk of socket) {
      arrived = Buffer.concat([arrived, chunk as Buffer]);
      for (let frame = frameOf(arrived); frame !== undefined; frame = frameOf(arrived)) {
        arrived = arrived.subarray(frame.end);
        if (frame.opcode === CLOSE) return;
        if (frame.opcode === PING) socket.write(masked(PONG, frame.payload));
        if (frame.opcode > TEXT) continue;
        parts.push(frame.payload);
        if (!frame.isLast) continue;
        yield Buffer.concat(parts).toString("utf8");
        parts = [];
      }
    }
  } finally {
    signal.removeEventListener("abort", stop);
    if (socket.writable) socket.end(masked(CLOSE, Buffer.alloc(0)));
    socket.destroy();
  }
}

function upgrade(url: string, { signal, env }: Pick<DeployTools, "signal" | "env">): Promise<Duplex> {
  const address = url.replace(/^ws/, "http");
  const proxy = proxyFor(address, env);
  const key = randomBytes(16).toString("base64");
  const accepted = createHash("sha1").update(`${key}${ACCEPTED}`).digest("base64");
  const begin = url.startsWith("wss:") ? overHttps : overHttp;
  return new Promise((resolve, reject) => {
    const asked = begin(address, {
      signal,
      ...(proxy ? { agent: new TunnelAgent(proxy) } : {}),
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
      },
    });
    const refuse = (detail: string) =>
      reject(
        new DeployError("failed", "The live log could not be opened", {
          detail,
          fix: "Run the command again, or without --follow",
        }),
      );
    asked.once("error", (error) =>
      reject(signal.aborted ? signal.reason : unreachable({ env }, address, error)),
    );
    asked.once("response", (response) => {
      response.resume();
      refuse(`the server responded with ${response.statusCode}`);
    });
    asked.once("upgrade", (response, socket, head) => {
      if (response.headers["sec-websocket-accept"] !== accepted) {
        socket.destroy();
        return refuse("the server is not a WebSocket server");
      }
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    asked.end();
  });
}

/** The first frame of the received data, once it is complete (RFC 6455, 5.2). */
function frameOf(bytes: Buffer): Frame | undefined {
  const [first, second] = bytes;
  if (first === undefined || second === undefined) return undefined;
  const short = second & 0x7f;
  const start = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < start) return undefined;
  const length = start === 2 ? short : start === 4 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (length > LONGEST) throw new DeployError("failed", "The live log sent a message that is too long");
  const end = start + length;
  if (bytes.length < end) return undefined;
  return { opcode: first & 0x0f, isLast: first >= 0x80, payload: bytes.subarray(start, end), end };
}

/** A short client frame; clients must mask what they send. */
function masked(opcode: number, payload: Buffer): Buffer {
  const mask = randomBytes(4);
  const hidden = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length]), mask, hidden]);
}
