import type { Content } from "../content.ts";
import type { StoreSnapshot } from "../engine/snapshot.ts";
import { addLine } from "./folder-content.ts";
import { fileHeader, LineBuffer } from "./line.ts";

/** Bytes that are sent together. */
const CHUNK = 256 * 1024;

/** A content as one file of a store in a folder. `end` is called when nothing more is read of it. */
export function snapshotOf({ parts }: Content, end = async () => {}): StoreSnapshot {
  async function* read(): AsyncGenerator<Uint8Array, void> {
    const lines = new LineBuffer();
    const take = () => {
      const bytes = Uint8Array.from(lines.bytes());
      lines.clear();
      return bytes;
    };
    try {
      lines.addBytes(fileHeader({ kind: "store", from: 1 }).subarray(0, -1));
      let last = 0;
      for (const part of parts) {
        for await (const batch of part.rows()) {
          for (const row of batch) {
            addLine(lines, part.name, row, ++last);
            if (lines.length > CHUNK) yield take();
          }
        }
      }
      yield take();
    } finally {
      await end();
    }
  }
  return { files: [{ name: "store.1.jsonl" }], read, release: () => void end() };
}
