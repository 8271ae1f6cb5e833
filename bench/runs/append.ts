import * as fs from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const fdatasync = promisify(fs.fdatasync);
/** About as long as the line of a step. */
const LINE = Buffer.alloc(300, "x");

/**
 * Microseconds until one line is on disk, one after another: the minimum for any durable step. `ahead`: the
 * file is made long enough before, so that no sync needs to store its size.
 */
export async function measureAppends(
  folder: string,
  { count, ahead }: { count: number; ahead: boolean },
): Promise<number> {
  const path = join(folder, "appends");
  const file = fs.openSync(path, "wx");
  try {
    if (ahead) fs.writeSync(file, Buffer.alloc(count * LINE.length));
    fs.fsyncSync(file);
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
