import { writeSync } from "node:fs";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { FileParts } from "../entities/_files.ts";
import { nextFile, nextWrite, readCounter, WORKERS } from "./crash-writes.ts";

/**
 * Writes until it is killed. Says `S <worker> <value>` before each write and `A <worker> <value>` once it is
 * acknowledged, with writes that block, so that what it said is known whatever happens to it. `R <worker>
 * <error>` reports a refusal.
 */
async function main(dataDir: string): Promise<void> {
  const log = { info() {}, warn() {}, error() {} };
  const open = sealStore((context) => openJsonStoreWith({ ...context, journalBytes: 256 * 1024 }), keys);
  const store = await open({ tables: CORE_TABLES, dataDir, log });
  say("O");
  await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(store, worker)));
}

/** With `CRASH_FILES`, some writes come with a file; with `CRASH_KEY`, the store is encrypted. */
const { CRASH_FILES, CRASH_KEY } = process.env;
const keys = new Keyring(CRASH_KEY === undefined ? [] : [CRASH_KEY]);

async function work(store: Store, worker: number): Promise<void> {
  const parts = CRASH_FILES === undefined ? undefined : new FileParts(store, undefined, undefined, keys);
  for (let value = (await readCounter(store, worker)) + 1; ; value++) {
    say(`S ${worker} ${value}`);
    try {
      // First, as the next process continues after the last write.
      if (parts) await nextFile(parts, worker, value);
      await nextWrite(store, worker, value);
      say(`A ${worker} ${value}`);
    } catch (error) {
      say(`R ${worker} ${(error as Error).message}`);
      value = await readCounter(store, worker);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function say(line: string): void {
  writeSync(1, `${line}\n`);
}

await main(process.argv[2]!);
