import { closedError } from "../storage-error.ts";
import type { Joins } from "../store.ts";
import { type Connections, explain, isRefusal } from "./connection.ts";
import type { DatabaseHealth } from "./database-health.ts";
import { JoinedReads } from "./joined-reads.ts";

/** Reads of a database: none is sent while it is known not to answer. */
export class DatabaseReads {
  readonly #connections: Connections;
  readonly #health: DatabaseHealth;
  readonly #joined = new JoinedReads((text, values) => this.query(text, values));
  #isClosed = false;

  constructor(connections: Connections, health: DatabaseHealth) {
    this.#connections = connections;
    this.#health = health;
  }

  async query(
    text: string,
    values: readonly unknown[],
    { steady = false } = {},
  ): Promise<Record<string, unknown>[]> {
    this.checkOpen();
    const { outage } = this.#health;
    if (outage !== undefined) throw outage;
    try {
      const rows = await this.#connections.read(text, values, { steady });
      this.#health.answered();
      return rows;
    } catch (error) {
      if (!isRefusal(error)) this.#health.goDown(error);
      throw explain(error);
    }
  }

  /** Reads what is asked again and again together with other such reads, and anything else alone. */
  poll(joins: Joins | undefined, text: string, values: readonly unknown[]) {
    return joins === undefined ? this.query(text, values) : this.#joined.query(text, values, joins);
  }

  /** Throws once `close` was called. */
  checkOpen(): void {
    if (this.#isClosed) throw closedError();
  }

  close(): void {
    this.#isClosed = true;
    this.#joined.close();
  }
}
