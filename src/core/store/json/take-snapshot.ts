import type { StoreSnapshot } from "../engine/snapshot.ts";
import { damageError, missingBytes } from "./damage-error.ts";
import type { Segment } from "./segment.ts";
import type { SharedFile } from "./shared-file.ts";

const CHUNK = 1024 * 1024;

/** A file as it is at some moment: later writes are beyond its size, and it stays open until `release` is called. */
export interface PinnedFile {
  readonly name: string;
  readonly size: number;
  readonly file: SharedFile;
  readonly release: () => void;
}

export function pinFiles(order: readonly Segment[]): PinnedFile[] {
  return order.map(({ name, size, file }) => ({ name, size, file, release: file.hold() }));
}

/** Pins files as they are now: later writes are beyond their recorded sizes, and removed files stay open. */
export function takeSnapshot(order: readonly Segment[]): StoreSnapshot {
  const pins = pinFiles(order);
  const release = () => {
    for (const pin of pins.splice(0)) pin.release();
  };
  const files = pins.map(({ name, size }) => ({ name, size }));
  async function* read(): AsyncGenerator<Uint8Array, void> {
    try {
      for (const { name, size, file } of pins) {
        for (let at = 0; at < size; ) {
          const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size - at));
          const count = await file.read(chunk, at);
          if (count === 0) throw damageError({ file: name, byte: at, what: missingBytes(size - at) });
          yield chunk.subarray(0, count);
          at += count;
        }
      }
    } finally {
      release();
    }
  }
  return { files, read, release };
}
