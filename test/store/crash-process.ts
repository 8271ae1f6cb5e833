import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { bundleChild } from "../_bundle.ts";
import { FileParts } from "../entities/_files.ts";
import { checkFiles, checkWorker, WORKERS } from "./crash-writes.ts";

/** A process that writes, and what it has said so far. */
export class Writer {
  readonly process: ChildProcess;
  readonly acknowledged: number[] = Array(WORKERS).fill(0);
  readonly tried: number[] = Array(WORKERS).fill(0);
  readonly refusals: string[] = [];
  acknowledgements = 0;
  isOpen = false;
  /** Whether some of its writes come with a file. */
  readonly hasFiles: boolean;
  /** What its store is encrypted with. */
  readonly keys: Keyring;
  readonly #heard: Promise<void>;
  #errors = "";

  static async start(dataDir: string, env: Record<string, string> = {}): Promise<Writer> {
    return new Writer(await bundleChild(new URL("crash-child.ts", import.meta.url)), dataDir, env);
  }

  private constructor(script: string, dataDir: string, env: Record<string, string>) {
    this.keys = new Keyring(env.CRASH_KEY === undefined ? [] : [env.CRASH_KEY]);
    this.hasFiles = env.CRASH_FILES !== undefined;
    this.process = spawn(process.execPath, [script, dataDir], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    this.process.stderr?.on("data", (chunk) => {
      this.#errors += String(chunk);
    });
    const lines = createInterface({ input: this.process.stdout! });
    lines.on("line", (line) => this.#hear(line));
    this.#heard = once(lines, "close").then(() => {});
  }

  /** Waits until it has said enough. */
  async until(enough: () => boolean): Promise<void> {
    while (!enough()) {
      if (this.process.exitCode !== null) throw new Error(`the writer ended: ${this.#errors}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Ends it immediately, and waits for all its output. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#heard;
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, "exit");
  }

  #hear(line: string): void {
    const [kind, worker, value] = line.split(" ");
    if (kind === "O") this.isOpen = true;
    if (kind === "S") this.tried[Number(worker)] = Number(value);
    if (kind === "R") this.refusals.push(line);
    if (kind !== "A") return;
    this.acknowledged[Number(worker)] = Number(value);
    this.acknowledgements++;
  }
}

/** Opens what a writer left and throws if something that was acknowledged is missing. */
export async function checkWhatIsLeft(dataDir: string, writer: Writer): Promise<void> {
  const log = { info() {}, warn() {}, error() {} };
  const store = await sealStore(openJsonStore, writer.keys)({ tables: CORE_TABLES, dataDir, log });
  try {
    for (let worker = 0; worker < WORKERS; worker++) {
      // A writer that was killed before its first write has said nothing of what earlier ones left.
      const tried = writer.tried[worker]! || Number.POSITIVE_INFINITY;
      const said = { acknowledged: writer.acknowledged[worker]!, tried };
      await checkWorker(store, worker, said);
      if (writer.hasFiles) await checkFiles(store, worker, { ...said, keys: writer.keys });
    }
    if (!writer.hasFiles) return;
    const parts = new FileParts(store, undefined, undefined, writer.keys);
    await parts.sweepAll();
    assert.deepEqual(await parts.problems(), []);
  } finally {
    await store.close();
  }
}
