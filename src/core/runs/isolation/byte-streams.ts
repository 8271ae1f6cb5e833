import { fromWire, toWire, type WireError } from "./wire-error.ts";

/** Bytes of one message, at most: a process that sends a large file still answers in between. */
const PART = 512 * 1024;

/** About bytes that one process reads from the other one, part by part as it wants them. */
export type StreamMessage =
  | { readonly type: "pull"; readonly stream: number }
  /** The next bytes, in base64; without bytes and without an error, there are no more. */
  | { readonly type: "part"; readonly stream: number; readonly bytes?: string; readonly error?: WireError }
  /** Nothing more of it is read. */
  | { readonly type: "drop"; readonly stream: number };

interface Reader {
  resolve(bytes: Buffer | undefined): void;
  reject(error: Error): void;
}

/** Contents of files on their way between a process and the agent's process: neither holds more than a part of one. */
export class ByteStreams {
  readonly #send: (message: StreamMessage) => void;
  /** What the other process reads. */
  readonly #offered = new Map<number, AsyncGenerator<Uint8Array, void>>();
  /** Who waits here for a part. */
  readonly #readers = new Map<number, Reader>();
  #end: Error | undefined;

  constructor(send: (message: StreamMessage) => void) {
    this.#send = send;
  }

  /** Has the other process read a source, under a number that nothing else has. */
  offer(stream: number, source: () => AsyncIterable<Uint8Array>): void {
    this.#offered.set(stream, inParts(source));
  }

  /** What the other process offers under a number. */
  async *read(stream: number): AsyncGenerator<Uint8Array, void> {
    let isOver = false;
    try {
      for (;;) {
        const bytes = await this.#pull(stream);
        isOver = bytes === undefined;
        if (isOver) return;
        yield bytes!;
      }
    } catch (error) {
      isOver = true;
      throw error;
    } finally {
      if (!isOver) this.#send({ type: "drop", stream });
    }
  }

  take(message: StreamMessage): void {
    const { stream } = message;
    switch (message.type) {
      case "pull":
        void this.#sendPart(stream);
        return;
      case "part": {
        const reader = this.#readers.get(stream);
        this.#readers.delete(stream);
        if (message.error) reader?.reject(fromWire(message.error));
        else reader?.resolve(message.bytes === undefined ? undefined : Buffer.from(message.bytes, "base64"));
        return;
      }
      case "drop":
        this.#forget(stream);
        return;
    }
  }

  /** The other process is gone, or is no longer asked. */
  end(error: Error): void {
    this.#end = error;
    for (const { reject } of this.#readers.values()) reject(error);
    this.#readers.clear();
    for (const stream of [...this.#offered.keys()]) this.#forget(stream);
  }

  /** Nothing more of an offered source is read. */
  #forget(stream: number): void {
    const source = this.#offered.get(stream);
    this.#offered.delete(stream);
    // Where it is read now, it ends after that.
    source?.return().catch(() => {});
  }

  #pull(stream: number): Promise<Buffer | undefined> {
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#readers.set(stream, { resolve, reject });
      this.#send({ type: "pull", stream });
    });
  }

  async #sendPart(stream: number): Promise<void> {
    try {
      const next = await this.#offered.get(stream)?.next();
      if (next && !next.done) {
        const { buffer, byteOffset, length } = next.value;
        const bytes = Buffer.from(buffer, byteOffset, length).toString("base64");
        this.#send({ type: "part", stream, bytes });
        return;
      }
      this.#offered.delete(stream);
      this.#send({ type: "part", stream });
    } catch (error) {
      this.#offered.delete(stream);
      this.#send({ type: "part", stream, error: toWire(error) });
    }
  }
}

async function* inParts(source: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  for await (const bytes of source()) {
    for (let from = 0; from < bytes.length; from += PART) yield bytes.subarray(from, from + PART);
  }
}
