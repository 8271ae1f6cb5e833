/** A received message, as the page and the tests read it. */
export interface Received {
  readonly n: number;
  readonly at: string;
  readonly kind: "event" | "telemetry" | "webhook";
  /** The idempotency key, if one was sent. */
  readonly key: string | null;
  /** Whether the key was seen before; the body must then be the same. */
  readonly duplicate: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** What is wrong with it. */
  readonly problems: readonly string[];
}

/** Keeps the newest received messages and notifies listeners. */
export class Inbox {
  readonly #most: number;
  readonly #items: Received[] = [];
  readonly #bodies = new Map<string, string>();
  readonly #listeners = new Set<(item: Received) => void>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(item: Omit<Received, "n" | "at" | "duplicate">): Received {
    const text = JSON.stringify(item.body);
    const before = item.key === null ? undefined : this.#bodies.get(`${item.kind} ${item.key}`);
    const problems = [...item.problems];
    if (before !== undefined && before !== text) {
      problems.push("was sent before with the same idempotency key and a different body");
    }
    if (item.key !== null) this.#bodies.set(`${item.kind} ${item.key}`, text);
    const received = {
      ...item,
      problems,
      n: ++this.#count,
      at: new Date().toISOString(),
      duplicate: before !== undefined,
    };
    this.#items.push(received);
    if (this.#items.length > this.#most) this.#forget(Math.ceil(this.#most / 10));
    for (const listener of this.#listeners) listener(received);
    return received;
  }

  #forget(count: number): void {
    for (const { kind, key } of this.#items.splice(0, count)) this.#bodies.delete(`${kind} ${key}`);
  }

  after(n: number, limit: number): Received[] {
    return this.#items.filter((item) => item.n > n).slice(0, limit);
  }

  get count(): number {
    return this.#count;
  }

  clear(): void {
    this.#items.length = 0;
    this.#bodies.clear();
  }

  listen(listener: (item: Received) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
