import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

export interface ImageFile {
  readonly file: string;
  readonly bytes: Buffer;
}

/** Everything that an image is made of, as it would be pushed: its configuration, its manifest, each layer unpacked. */
export function* imageFiles(image: string): Generator<ImageFile> {
  const folder = mkdtempSync(join(tmpdir(), "svc-image-"));
  try {
    execFileSync("sh", ["-c", 'docker save "$0" | tar x -C "$1"', image, folder]);
    for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      const path = join(folder, file);
      if (!statSync(path).isFile()) continue;
      const bytes = readFileSync(path);
      yield { file, bytes: bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes };
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
