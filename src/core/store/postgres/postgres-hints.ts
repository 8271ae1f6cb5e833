import { LocalHints } from "../local-hints.ts";
import type { Hint, Hints } from "../store.ts";
import type { Client, Connections } from "./connection.ts";
import { identifier, nameOf } from "./sql-text.ts";

/** Milliseconds in which hints are gathered, and from one notification to the next where there are many. */
const GATHERED = 20;
const APART = 100;
/** Characters of one notification; Postgres takes less than 8000 bytes. */
const LONGEST = 7000;
/** Milliseconds between two signs of life of the connection that listens. */
const PULSE = 15_000;

/**
 * Hints to all processes that have the database open, by LISTEN and NOTIFY. They are sent in statements of their own:
 * commits that notify wait for each other. Behind PgBouncer nothing can listen, and hints stay in the process.
 */
export class PostgresHints implements Hints {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #sender: string;
  readonly #local = new LocalHints();
  readonly #listeners = new Set<(hint: Hint | "all") => void>();
  #gathered = new Map<string, Set<string>>();
  #timer: NodeJS.Timeout | undefined;
  /** When hints may be sent again, by the monotonic clock. */
  #next = 0;
  #client: Client | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(connections: Connections, { schema, sender }: { schema: string; sender: string }) {
    this.#connections = connections;
    this.#channel = nameOf(`svc:${schema}`);
    this.#sender = sender;
  }

  tell(topic: string, ids: readonly string[]): void {
    this.#local.tell(topic, ids);
    if (this.#connections.isPooled || this.#isClosed) return;
    const known = this.#gathered.get(topic) ?? new Set();
    for (const id of ids) known.add(id);
    this.#gathered.set(topic, known);
    if (this.#timer !== undefined) return;
    const pause = Math.max(GATHERED, this.#next - performance.now());
    this.#timer = setTimeout(() => void this.#send(), pause);
  }

  on(listener: (hint: Hint | "all") => void): () => void {
    const own = (hint: Hint | "all") => listener(hint);
    this.#listeners.add(own);
    const off = this.#local.on(listener);
    return () => {
      this.#listeners.delete(own);
      off();
    };
  }

  /** Begins to listen, and keeps listening when the connection is lost. */
  async start(client: Client): Promise<void> {
    if (this.#connections.isPooled) return client.end();
    this.#connections.onReplaced = () => void this.#client?.end().catch(() => {});
    await this.#listen(client);
  }

  async #listen(client: Client): Promise<void> {
    this.#client = client;
    client.on("notification", ({ payload }) => this.#hear(payload ?? ""));
    client.on("end", () => this.#lost(client));
    await client.query(`listen ${identifier(this.#channel)}`);
    this.#pulse = setInterval(() => void this.#prove(client), PULSE).unref();
  }

  async #listenAgain(): Promise<void> {
    let client: Client | undefined;
    try {
      client = await this.#connections.primary();
      if (this.#isClosed) return await client.end();
      await this.#listen(client);
      for (const listener of [...this.#listeners]) listener("all");
    } catch {
      this.#lost(client);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    clearInterval(this.#pulse);
    if (this.#timer !== undefined) await this.#send();
    await this.#client?.end().catch(() => {});
  }

  /** A connection may be dead without a sign. */
  async #prove(client: Client): Promise<void> {
    let isAlive = false;
    const limit = setTimeout(() => {
      if (!isAlive) void client.end().catch(() => {});
      this.#lost(client);
    }, PULSE / 2).unref();
    await client.query("select 1").then(
      () => {
        isAlive = true;
        clearTimeout(limit);
      },
      () => {},
    );
  }

  #lost(client: Client | undefined): void {
    if (this.#isClosed || this.#retry !== undefined) return;
    if (this.#client !== undefined && client !== this.#client) return;
    this.#client = undefined;
    clearInterval(this.#pulse);
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      void this.#listenAgain();
    }, 500).unref();
  }

  async #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#next = performance.now() + APART;
    const gathered = this.#gathered;
    this.#gathered = new Map();
    const payloads = [...gathered].flatMap(([topic, ids]) => this.#payloads(topic, [...ids]));
    // A hint may get lost: nobody waits for the disk, as a commit that notifies would.
    await this.#connections
      .read(
        `select pg_notify($1, p) from unnest($2::text[]) as p, set_config('synchronous_commit', 'off', true)`,
        [this.#channel, payloads],
      )
      .catch(() => {});
  }

  #payloads(topic: string, ids: readonly string[]): string[] {
    const payloads: string[] = [];
    let part: string[] = [];
    let length = 0;
    const end = () => {
      if (part.length > 0) payloads.push(JSON.stringify([this.#sender, topic, part]));
      part = [];
      length = 0;
    };
    for (const id of ids) {
      const own = Buffer.byteLength(JSON.stringify(id)) + 1;
      if (length + own > LONGEST) end();
      part.push(id);
      length += own;
    }
    end();
    return payloads;
  }

  #hear(payload: string): void {
    const [sender, topic, ids] = JSON.parse(payload) as [string, string, string[]];
    // Its own hints have reached this process directly.
    if (sender === this.#sender) return;
    for (const listener of [...this.#listeners]) listener({ topic, ids });
  }
}
