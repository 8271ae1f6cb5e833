/** An event of a stream, its data still as text. */
export interface ServerEventText {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: string;
}

/** Reads text/event-stream (HTML standard, section 9.2). */
export async function* readServerEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEventText> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop()!;
    for (const block of blocks) {
      const event = readBlock(block);
      if (event) yield event;
    }
  }
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
