import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Writes the declarations of the sources; areas that have not changed are not compiled again. */
export function writeTypes(folder: string): void {
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [tsc, "-b", "areas/face.json"], { cwd: ROOT, stdio: "inherit" });
  for (const name of readdirSync(join(ROOT, ".types"), { recursive: true, encoding: "utf8" })) {
    const source = join(ROOT, "src", name.replace(/\.d\.ts$/, ".ts"));
    // Those of sources that are gone stay there.
    if (!name.endsWith(".d.ts") || !existsSync(source)) continue;
    const target = join(folder, name);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(ROOT, ".types", name), target);
  }
}
