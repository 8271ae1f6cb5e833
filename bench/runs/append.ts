import * as fs from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const fdatasync = promisify(fs.fdatasync);
/** About as long as the line of a step. */
const LINE = Buffer.alloc(300, "x");

/** Microseconds that one append takes until it is on disk, the next one after it: what no durable step can do without. */
export async function measureAppends(folder: string, count: number): Promise<number> {
  const path = join(folder, "appends");
  const file = fs.openSync(path, "wx");
  try {
    const begun = performance.now();
    for (let at = 0; at < count; at++) {
      fs.writeSync(file, LINE, 0, LINE.length, at * LINE.length);
      await fdatasync(file);
    }
    return ((performance.now() - begun) / count) * 1000;
  } finally {
    fs.closeSync(file);
    fs.unlinkSync(path);
  }
}
