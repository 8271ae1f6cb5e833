import type { Logger } from "../base/log.ts";
import { Redactor } from "../base/redactor.ts";
import { Hooks } from "../entities/hooks.ts";
import { Ledger } from "../entities/ledger.ts";
import type { Keyring } from "../store/encryption/keyring.ts";
import { sealStore } from "../store/encryption/sealed-store.ts";
import { openJsonStore } from "../store/json/json-store.ts";
import type { Store } from "../store/store.ts";
import { CORE_TABLES } from "../store/tables.ts";
import { AuditLog } from "./audit-log.ts";

/** The data folder of a service that is not running, open for a command. */
export interface OpenFolder {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {}, with: () => SILENT };

/** Opens a data folder while `work` runs. The service must not be running. */
export async function withFolder<T>(
  dataDir: string,
  keys: Keyring,
  work: (folder: OpenFolder) => Promise<T>,
): Promise<T> {
  const store = await sealStore(openJsonStore, keys)({ tables: CORE_TABLES, dataDir, log: SILENT });
  try {
    const redactor = new Redactor();
    const ledger = new Ledger(store, new Hooks(() => {}), () => new Date(), redactor);
    return await work({ store, ledger, audit: new AuditLog({ store, ledger, redactor, log: SILENT }) });
  } finally {
    await store.close();
  }
}
