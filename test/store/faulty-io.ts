import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";

/** The real file system, of which single calls can be made to fail. */
export class FaultyIo {
  /** Asked before each call: the error that it shall fail with, or nothing. */
  fault: (call: keyof StoreIo) => Error | undefined = () => undefined;
  /** Whether the system has writes that are on disk when they are done. */
  hasSynced = false;
  /** Bytes that one write takes at most. */
  shortWrites = Number.POSITIVE_INFINITY;
  readonly io: StoreIo;

  constructor() {
    const check = (call: keyof StoreIo) => {
      const error = this.fault(call);
      if (error !== undefined) throw error;
    };
    this.io = {
      ...nodeIo,
      open: (path, mode) => {
        check("open");
        return nodeIo.open(path, mode);
      },
      write: (file, bytes, position) => {
        check("write");
        return nodeIo.write(file, bytes.subarray(0, this.shortWrites), position);
      },
      sync: async (file) => {
        check("sync");
        await nodeIo.sync(file);
      },
      openSynced: (path) => (this.hasSynced ? nodeIo.openSynced(path) : undefined),
      writeSynced: async (file, bytes, position) => {
        check("writeSynced");
        return nodeIo.writeSynced(file, bytes.subarray(0, this.shortWrites), position);
      },
      truncate: (file, size) => {
        check("truncate");
        nodeIo.truncate(file, size);
      },
      rename: (from, to) => {
        check("rename");
        nodeIo.rename(from, to);
      },
      syncFolder: async (path) => {
        check("syncFolder");
        await nodeIo.syncFolder(path);
      },
    };
  }

  /** Makes the next such call fail, once. */
  failOnce(call: keyof StoreIo, code: string): void {
    this.fault = (each) => {
      if (each !== call) return undefined;
      this.fault = () => undefined;
      return systemError(code);
    };
  }
}

export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: made for a test`), { code });
}
