/** An event of a stream, its data still as text. */
export interface ServerEventText {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: string;
}

/**
 * Reads text/event-stream (HTML standard, section 9.2). Fails after `silence` milliseconds without a byte: the
 * connection is dead.
 */
export async function* readServerEvents(
  body: ReadableStream<Uint8Array>,
  silence?: number,
): AsyncGenerator<ServerEventText, void> {
  // Safari does not iterate over streams.
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), silence);
      if (done) return;
      // The end of a block may have been cut in two. What came before is not searched again.
      const from = Math.max(0, text.length - 3);
      text += decoder.decode(value, { stream: true });
      if (!/\n\r?\n/.test(text.slice(from))) continue;
      const blocks = text.split(/\r?\n\r?\n/);
      text = blocks.pop()!;
      for (const block of blocks) {
        const event = readBlock(block);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function within<T>(reading: Promise<T>, milliseconds: number | undefined): Promise<T> {
  if (milliseconds === undefined) return reading;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("The stream is silent")), milliseconds);
    reading.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function readBlock(block: string): ServerEventText | undefined {
  const fields = new Map<string, string[]>();
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([^:]+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (name !== undefined) fields.set(name, [...(fields.get(name) ?? []), value ?? ""]);
  }
  const data = fields.get("data");
  if (!data) return undefined;
  return {
    event: fields.get("event")?.at(-1) ?? "message",
    id: fields.get("id")?.at(-1),
    data: data.join("\n"),
  };
}
