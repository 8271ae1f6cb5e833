import { messageOf } from "../base/error-text.ts";
import { isServiceError } from "../base/errors.ts";
import type { Participant } from "../entities/change.ts";
import type { Transaction } from "../store/store.ts";
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
      const written = participant(change, limitTo(tables, tx, plugin));
      return written?.catch((error: unknown) => {
        throw explain(error);
      });
    } catch (error) {
      throw explain(error);
    }
  };
}

/** The transaction, with writes to these tables only. */
function limitTo(tables: ReadonlySet<string>, tx: Transaction, plugin: string): Transaction {
  const check = (table: string): void => {
    if (tables.has(table)) return;
    throw new PluginError(
      `Plugin "${plugin}" cannot write "${table}" in the transaction of a change: it can write only its own tables and those of plugins in its dependsOn`,
    );
  };
  return {
    get: (table, id) => tx.get(table, id),
    ids: (table, field, value) => tx.ids(table, field, value),
    insert: async (table, entity) => {
      check(table);
      return tx.insert(table, entity);
    },
    change: async (table, id, fn) => {
      check(table);
      return tx.change(table, id, fn);
    },
    remove: async (table, id) => {
      check(table);
      return tx.remove(table, id);
    },
    last: (log, key) => tx.last(log, key),
    append: async (log, key, entry) => {
      check(log);
      return tx.append(log, key, entry);
    },
    clear: async (log, key) => {
      check(log);
      return tx.clear(log, key);
    },
  };
}
