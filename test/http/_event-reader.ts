/** An event as a client of server-sent events sees it. */
export interface ReadEvent {
  readonly event: string;
  readonly id?: string;
  readonly data: Record<string, unknown>;
}

/** Reads server-sent events one by one, as the HTML standard says (section 9.2.6). */
export class EventReader implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";
  comments = 0;

  constructor(response: Response) {
    if (!response.body) throw new Error(`No stream: ${response.status}`);
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next event, `undefined` when the stream has ended. */
  async next(): Promise<ReadEvent | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        const event = toEvent(block);
        if (event) return event;
        this.comments++;
        continue;
      }
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      this.#text += value;
    }
  }

  /** All events until the stream ends. */
  async rest(): Promise<ReadEvent[]> {
    const events: ReadEvent[] = [];
    for (let event = await this.next(); event; event = await this.next()) events.push(event);
    return events;
  }

  /** The next `count` events. */
  async take(count: number): Promise<ReadEvent[]> {
    const events: ReadEvent[] = [];
    while (events.length < count) {
      const event = await this.next();
      if (!event) throw new Error(`The stream ended after ${events.length} of ${count} events`);
      events.push(event);
    }
    return events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }
}

function toEvent(block: string): ReadEvent | undefined {
  const fields = block.split("\n").map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const;
  });
  const field = (name: string) => fields.find(([key]) => key === name)?.[1];
  const data = field("data");
  if (data === undefined) return undefined;
  return { event: field("event") ?? "message", id: field("id"), data: JSON.parse(data) };
}
