/** One server-sent event. */
export interface StreamEvent {
  readonly event: string;
  readonly id: string;
  readonly data: unknown;
}

/** Reads an event stream; ends with `close`. */
export async function openStream(url: string, headers: Readonly<Record<string, string>>) {
  const over = new AbortController();
  const response = await fetch(url, { headers, signal: over.signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const next = async (): Promise<StreamEvent> => {
    for (;;) {
      const end = text.indexOf("\n\n");
      if (end === -1) {
        const { value, done } = await reader.read();
        if (done) throw new Error("The stream has ended");
        text += value;
        continue;
      }
      const block = text.slice(0, end);
      text = text.slice(end + 2);
      if (!block.startsWith(":")) return toEvent(block);
    }
  };
  return { response, next, close: () => over.abort(), [Symbol.dispose]: () => over.abort() };
}

function toEvent(block: string): StreamEvent {
  const lines = new Map(
    block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  return {
    event: lines.get("event") ?? "",
    id: lines.get("id") ?? "",
    data: JSON.parse(lines.get("data") ?? "null"),
  };
}
