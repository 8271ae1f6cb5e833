import { writeSync } from "node:fs";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { nextWrite, readCounter, WORKERS } from "./crash-writes.ts";

/**
 * Writes until it is killed. Says `S <worker> <value>` before each write and `A <worker> <value>` once it is
 * acknowledged, with writes that block, so that what it said is known whatever happens to it. `R <worker>
 * <error>` reports a refusal.
 */
async function main(dataDir: string): Promise<void> {
  const log = { info() {}, warn() {}, error() {} };
  const store = await openJsonStoreWith({ tables: CORE_TABLES, dataDir, log, journalBytes: 256 * 1024 });
  say("O");
  await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(store, worker)));
}

async function work(store: Store, worker: number): Promise<void> {
  for (let value = (await readCounter(store, worker)) + 1; ; value++) {
    say(`S ${worker} ${value}`);
    try {
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
