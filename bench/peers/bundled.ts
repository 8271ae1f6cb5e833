import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/**
 * A program below `bench` that uses what the package does not export, in one file with the sources: no loader is between
 * Node and what is measured.
 */
export async function bundled(path: string): Promise<string> {
  const file = join(ROOT, "node_modules/.bench", basename(path));
  await build({
    input: join(ROOT, "bench", path),
    platform: "node",
    external: /^[^./]/,
    output: { file, codeSplitting: false },
  });
  return file;
}
