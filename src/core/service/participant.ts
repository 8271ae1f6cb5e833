import { messageOf } from "../base/error-text.ts";
import { isServiceError } from "../base/errors.ts";
import type { Participant } from "../entities/change.ts";
import type { IndexValue, LogName, Logs, TableName, Tables, Transaction } from "../store/store.ts";
import { PluginError } from "./plugin.ts";

/**
 * Lets a plugin participate in changes: it writes only the tables that it may write, and its failures have
 * its name.
 */
export function guardParticipant(
  plugin: string,
  tables: ReadonlySet<string>,
  participant: Participant,
): Participant {
  const explain = (error: unknown): unknown => {
    // It rejected the change on purpose, or the store cannot write.
    if (isServiceError(error) || error instanceof PluginError) return error;
    return new PluginError(
      `Plugin "${plugin}" failed while it participated in a change: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  };
  return (change, tx) => {
    try {
      const written = participant(change, new LimitedTransaction(tx, tables, plugin));
      return written?.catch((error: unknown) => {
        throw explain(error);
      });
    } catch (error) {
      throw explain(error);
    }
  };
}

/** The transaction, with writes to these tables only. */
class LimitedTransaction implements Transaction {
  readonly #tx: Transaction;
  readonly #tables: ReadonlySet<string>;
  readonly #plugin: string;

  constructor(tx: Transaction, tables: ReadonlySet<string>, plugin: string) {
    this.#tx = tx;
    this.#tables = tables;
    this.#plugin = plugin;
  }

  get<K extends TableName>(table: K, id: string): Promise<Tables[K] | undefined> {
    return this.#tx.get(table, id);
  }

  ids(table: TableName, field: string, value: IndexValue): Promise<string[]> {
    return this.#tx.ids(table, field, value);
  }

  async insert<K extends TableName>(table: K, entity: Tables[K]): Promise<void> {
    return this.#to(table).insert(table, entity);
  }

  async change<K extends TableName>(
    table: K,
    id: string,
    fn: (current: Tables[K]) => Tables[K] | undefined,
  ): Promise<Tables[K]> {
    return this.#to(table).change(table, id, fn);
  }

  async remove(table: TableName, id: string): Promise<boolean> {
    return this.#to(table).remove(table, id);
  }

  last(log: LogName, key: string): Promise<number> {
    return this.#tx.last(log, key);
  }

  async append<K extends LogName>(log: K, key: string, entry: Logs[K]): Promise<number> {
    return this.#to(log).append(log, key, entry);
  }

  async clear(log: LogName, key: string): Promise<void> {
    return this.#to(log).clear(log, key);
  }

  #to(table: string): Transaction {
    if (this.#tables.has(table)) return this.#tx;
    throw new PluginError(
      `Plugin "${this.#plugin}" cannot write "${table}" in the transaction of a change: it can write only its own tables and those of plugins in its dependsOn`,
    );
  }
}
